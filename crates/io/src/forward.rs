//! Macros for a storage that wraps another storage, or a file that wraps another file. The wrapper
//! implements some methods itself, and the macros implement the others by forwarding to what is
//! wrapped.

/// Implements methods of [`Storage`](crate::Storage) by forwarding to a field of `self`. To be used
/// inside the `impl` block: `forward_storage!(field: rename, remove);`. With `method()?:` in place
/// of `field:`, the calls are forwarded to what a fallible method of `self` returns.
#[macro_export]
macro_rules! forward_storage {
    ($field:ident: $($method:ident),+ $(,)?) => {
        $($crate::forward_storage!(@$method {$field});)+
    };
    ($target:ident()?: $($method:ident),+ $(,)?) => {
        $($crate::forward_storage!(@$method {$target()?});)+
    };
    (@open {$($target:tt)+}) => {
        fn open(
            &self,
            path: &std::path::Path,
            mode: $crate::IoMode,
            purpose: $crate::Purpose,
        ) -> $crate::Result<std::sync::Arc<dyn $crate::ReadFile>> {
            self.$($target)+.open(path, mode, purpose)
        }
    };
    (@create {$($target:tt)+}) => {
        fn create(
            &self,
            path: &std::path::Path,
            create: $crate::Create,
            mode: $crate::IoMode,
            purpose: $crate::Purpose,
        ) -> $crate::Result<Box<dyn $crate::WriteFile>> {
            self.$($target)+.create(path, create, mode, purpose)
        }
    };
    (@rename {$($target:tt)+}) => {
        $crate::forward_storage!(@@two_paths {$($target)+} rename);
    };
    (@link {$($target:tt)+}) => {
        $crate::forward_storage!(@@two_paths {$($target)+} link);
    };
    (@copy_ownership {$($target:tt)+}) => {
        $crate::forward_storage!(@@two_paths {$($target)+} copy_ownership);
    };
    (@remove {$($target:tt)+}) => {
        $crate::forward_storage!(@@path {$($target)+} remove ());
    };
    (@remove_directory {$($target:tt)+}) => {
        $crate::forward_storage!(@@path {$($target)+} remove_directory ());
    };
    (@create_directory {$($target:tt)+}) => {
        $crate::forward_storage!(@@path {$($target)+} create_directory ());
    };
    (@sync_directory {$($target:tt)+}) => {
        $crate::forward_storage!(@@path {$($target)+} sync_directory ());
    };
    (@list {$($target:tt)+}) => {
        $crate::forward_storage!(@@path {$($target)+} list Vec<$crate::DirectoryEntry>);
    };
    (@visit_entries {$($target:tt)+}) => {
        fn visit_entries(
            &self,
            directory: &std::path::Path,
            visit: &mut dyn FnMut(&$crate::ListedEntry<'_>) -> $crate::Result<()>,
        ) -> $crate::Result<()> {
            self.$($target)+.visit_entries(directory, visit)
        }
    };
    (@metadata {$($target:tt)+}) => {
        $crate::forward_storage!(@@path {$($target)+} metadata $crate::FileMetadata);
    };
    (@identity {$($target:tt)+}) => {
        $crate::forward_storage!(@@path {$($target)+} identity $crate::FileIdentity);
    };
    (@canonical_path {$($target:tt)+}) => {
        $crate::forward_storage!(@@path {$($target)+} canonical_path std::path::PathBuf);
    };
    (@capabilities {$($target:tt)+}) => {
        $crate::forward_storage!(@@path {$($target)+} capabilities $crate::Capabilities);
    };
    (@resident_pages {$($target:tt)+}) => {
        $crate::forward_storage!(@@path {$($target)+} resident_pages Option<u64>);
    };
    (@lock {$($target:tt)+}) => {
        $crate::forward_storage!(@@path {$($target)+} lock Box<dyn $crate::FileLock>);
    };
    (@statistics {$($target:tt)+}) => {
        fn statistics(&self) -> &$crate::Statistics {
            self.$($target)+.statistics()
        }
    };
    (@@path {$($target:tt)+} $method:ident $answer:ty) => {
        fn $method(&self, path: &std::path::Path) -> $crate::Result<$answer> {
            self.$($target)+.$method(path)
        }
    };
    (@@two_paths {$($target:tt)+} $method:ident) => {
        fn $method(&self, from: &std::path::Path, to: &std::path::Path) -> $crate::Result<()> {
            self.$($target)+.$method(from, to)
        }
    };
}

/// Implements methods of [`ReadFile`](crate::ReadFile) by forwarding to a field of `self`. To be
/// used inside the `impl` block: `forward_read_file!(field: length, path);`.
#[macro_export]
macro_rules! forward_read_file {
    ($field:ident: $($method:ident),+ $(,)?) => {
        $($crate::forward_read_file!(@$method $field);)+
    };
    (@read_at $field:ident) => {
        $crate::forward_read_file!(@@read $field read_at);
    };
    (@read_in_batch_at $field:ident) => {
        $crate::forward_read_file!(@@read $field read_in_batch_at);
    };
    (@length $field:ident) => {
        fn length(&self) -> $crate::Result<u64> {
            self.$field.length()
        }
    };
    (@path $field:ident) => {
        fn path(&self) -> &std::path::Path {
            self.$field.path()
        }
    };
    (@mode $field:ident) => {
        fn mode(&self) -> $crate::IoMode {
            self.$field.mode()
        }
    };
    (@alignment $field:ident) => {
        fn alignment(&self) -> usize {
            self.$field.alignment()
        }
    };
    (@next_of_waiting $field:ident) => {
        fn next_of_waiting(&self, waiting: usize) -> usize {
            self.$field.next_of_waiting(waiting)
        }
    };
    (@ring_access $field:ident) => {
        fn ring_access(&self) -> Option<$crate::RingAccess<'_>> {
            self.$field.ring_access()
        }
    };
    (@was_read $field:ident) => {
        fn was_read(
            &self,
            offset: u64,
            count: usize,
            purpose: $crate::Purpose,
            time: $crate::ReadTime,
        ) {
            self.$field.was_read(offset, count, purpose, time);
        }
    };
    (@advise_random $field:ident) => {
        fn advise_random(&self) {
            self.$field.advise_random();
        }
    };
    (@resident_pages $field:ident) => {
        fn resident_pages(&self, offset: u64, length: u64) -> Option<u64> {
            self.$field.resident_pages(offset, length)
        }
    };
    (@@read $field:ident $method:ident) => {
        fn $method(
            &self,
            buffer: &mut [u8],
            offset: u64,
            purpose: $crate::Purpose,
        ) -> $crate::Result<usize> {
            self.$field.$method(buffer, offset, purpose)
        }
    };
}

/// Implements methods of [`WriteFile`](crate::WriteFile) by forwarding to a field of `self`, in the
/// same way as [`forward_storage!`].
#[macro_export]
macro_rules! forward_write_file {
    ($field:ident: $($method:ident),+ $(,)?) => {
        $($crate::forward_write_file!(@$method {$field});)+
    };
    ($target:ident()?: $($method:ident),+ $(,)?) => {
        $($crate::forward_write_file!(@$method {$target()?});)+
    };
    (@sync_data {$($target:tt)+}) => {
        $crate::forward_write_file!(@@sync {$($target)+} sync_data);
    };
    (@sync_all {$($target:tt)+}) => {
        $crate::forward_write_file!(@@sync {$($target)+} sync_all);
    };
    (@allocate {$($target:tt)+}) => {
        $crate::forward_write_file!(@@range {$($target)+} allocate);
    };
    (@start_writeback {$($target:tt)+}) => {
        $crate::forward_write_file!(@@range {$($target)+} start_writeback);
    };
    (@write_at {$($target:tt)+}) => {
        fn write_at(
            &mut self,
            bytes: &[u8],
            offset: u64,
            purpose: $crate::Purpose,
        ) -> $crate::Result<usize> {
            self.$($target)+.write_at(bytes, offset, purpose)
        }
    };
    (@write_vectored_at {$($target:tt)+}) => {
        fn write_vectored_at(
            &mut self,
            parts: &[std::io::IoSlice<'_>],
            offset: u64,
            is_durable: bool,
            purpose: $crate::Purpose,
        ) -> $crate::Result<()> {
            self.$($target)+.write_vectored_at(parts, offset, is_durable, purpose)
        }
    };
    (@write_durably_at {$($target:tt)+}) => {
        fn write_durably_at(
            &mut self,
            bytes: &[u8],
            offset: u64,
            purpose: $crate::Purpose,
        ) -> $crate::Result<()> {
            self.$($target)+.write_durably_at(bytes, offset, purpose)
        }
    };
    (@truncate {$($target:tt)+}) => {
        fn truncate(&mut self, length: u64) -> $crate::Result<()> {
            self.$($target)+.truncate(length)
        }
    };
    (@length {$($target:tt)+}) => {
        fn length(&self) -> $crate::Result<u64> {
            self.$($target)+.length()
        }
    };
    (@path {$($target:tt)+}) => {
        fn path(&self) -> &std::path::Path {
            self.$($target)+.path()
        }
    };
    (@mode {$($target:tt)+}) => {
        fn mode(&self) -> $crate::IoMode {
            self.$($target)+.mode()
        }
    };
    (@alignment {$($target:tt)+}) => {
        fn alignment(&self) -> usize {
            self.$($target)+.alignment()
        }
    };
    (@@sync {$($target:tt)+} $method:ident) => {
        fn $method(&mut self, purpose: $crate::Purpose) -> $crate::Result<()> {
            self.$($target)+.$method(purpose)
        }
    };
    (@@range {$($target:tt)+} $method:ident) => {
        fn $method(&mut self, offset: u64, length: u64) -> $crate::Result<()> {
            self.$($target)+.$method(offset, length)
        }
    };
}
