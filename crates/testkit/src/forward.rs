//! Macros for a storage that wraps another storage. The wrapper implements some methods itself, and
//! the macros implement the others by forwarding to the wrapped storage.

/// Implements methods of `tailwater_io::Storage` by forwarding to a field of `self`. To be used
/// inside the `impl` block: `forward_storage!(field: rename, remove);`.
#[macro_export]
macro_rules! forward_storage {
    ($field:ident: $($method:ident),+ $(,)?) => {
        $($crate::forward_storage!(@$method $field);)+
    };
    (@open $field:ident) => {
        fn open(
            &self,
            path: &std::path::Path,
            mode: tailwater_io::IoMode,
            purpose: tailwater_io::Purpose,
        ) -> tailwater_io::Result<std::sync::Arc<dyn tailwater_io::ReadFile>> {
            self.$field.open(path, mode, purpose)
        }
    };
    (@create $field:ident) => {
        fn create(
            &self,
            path: &std::path::Path,
            create: tailwater_io::Create,
            mode: tailwater_io::IoMode,
            purpose: tailwater_io::Purpose,
        ) -> tailwater_io::Result<Box<dyn tailwater_io::WriteFile>> {
            self.$field.create(path, create, mode, purpose)
        }
    };
    (@rename $field:ident) => { $crate::forward_storage!(@@two_paths $field rename); };
    (@link $field:ident) => { $crate::forward_storage!(@@two_paths $field link); };
    (@remove $field:ident) => { $crate::forward_storage!(@@path $field remove ()); };
    (@remove_directory $field:ident) => {
        $crate::forward_storage!(@@path $field remove_directory ());
    };
    (@create_directory $field:ident) => {
        $crate::forward_storage!(@@path $field create_directory ());
    };
    (@sync_directory $field:ident) => { $crate::forward_storage!(@@path $field sync_directory ()); };
    (@list $field:ident) => {
        $crate::forward_storage!(@@path $field list Vec<tailwater_io::DirectoryEntry>);
    };
    (@metadata $field:ident) => {
        $crate::forward_storage!(@@path $field metadata tailwater_io::FileMetadata);
    };
    (@identity $field:ident) => {
        $crate::forward_storage!(@@path $field identity tailwater_io::FileIdentity);
    };
    (@canonical_path $field:ident) => {
        $crate::forward_storage!(@@path $field canonical_path std::path::PathBuf);
    };
    (@capabilities $field:ident) => {
        $crate::forward_storage!(@@path $field capabilities tailwater_io::Capabilities);
    };
    (@resident_pages $field:ident) => {
        $crate::forward_storage!(@@path $field resident_pages Option<u64>);
    };
    (@lock $field:ident) => {
        $crate::forward_storage!(@@path $field lock Box<dyn tailwater_io::FileLock>);
    };
    (@statistics $field:ident) => {
        fn statistics(&self) -> &tailwater_io::Statistics {
            self.$field.statistics()
        }
    };
    (@@path $field:ident $method:ident $answer:ty) => {
        fn $method(&self, path: &std::path::Path) -> tailwater_io::Result<$answer> {
            self.$field.$method(path)
        }
    };
    (@@two_paths $field:ident $method:ident) => {
        fn $method(&self, from: &std::path::Path, to: &std::path::Path) -> tailwater_io::Result<()> {
            self.$field.$method(from, to)
        }
    };
}

/// Implements methods of `tailwater_io::WriteFile` by forwarding to a field of `self`, in the same
/// way as [`forward_storage!`].
#[macro_export]
macro_rules! forward_write_file {
    ($field:ident: $($method:ident),+ $(,)?) => {
        $($crate::forward_write_file!(@$method $field);)+
    };
    (@sync_data $field:ident) => { $crate::forward_write_file!(@@sync $field sync_data); };
    (@sync_all $field:ident) => { $crate::forward_write_file!(@@sync $field sync_all); };
    (@allocate $field:ident) => { $crate::forward_write_file!(@@range $field allocate); };
    (@start_writeback $field:ident) => {
        $crate::forward_write_file!(@@range $field start_writeback);
    };
    (@write_at $field:ident) => {
        fn write_at(
            &mut self,
            bytes: &[u8],
            offset: u64,
            purpose: tailwater_io::Purpose,
        ) -> tailwater_io::Result<usize> {
            self.$field.write_at(bytes, offset, purpose)
        }
    };
    (@truncate $field:ident) => {
        fn truncate(&mut self, length: u64) -> tailwater_io::Result<()> {
            self.$field.truncate(length)
        }
    };
    (@length $field:ident) => {
        fn length(&self) -> tailwater_io::Result<u64> {
            self.$field.length()
        }
    };
    (@path $field:ident) => {
        fn path(&self) -> &std::path::Path {
            self.$field.path()
        }
    };
    (@mode $field:ident) => {
        fn mode(&self) -> tailwater_io::IoMode {
            self.$field.mode()
        }
    };
    (@alignment $field:ident) => {
        fn alignment(&self) -> usize {
            self.$field.alignment()
        }
    };
    (@@sync $field:ident $method:ident) => {
        fn $method(&mut self, purpose: tailwater_io::Purpose) -> tailwater_io::Result<()> {
            self.$field.$method(purpose)
        }
    };
    (@@range $field:ident $method:ident) => {
        fn $method(&mut self, offset: u64, length: u64) -> tailwater_io::Result<()> {
            self.$field.$method(offset, length)
        }
    };
}
