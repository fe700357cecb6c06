//! Gives the shared library the name under which programs for RocksDB look for it, and keeps it
//! loaded after `dlclose`: background threads may still run its code.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for argument in ["-Wl,-soname,librocksdb.so.11", "-Wl,-z,nodelete"] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
}
