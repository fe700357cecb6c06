//! Compiles the calls of the oracle of the C interface, for the target `c_interface`.

fn main() {
    let sources = "../crates/capi/tests/oracle/c";
    println!("cargo:rerun-if-changed={sources}");
    let names = [
        "accessors", "batches", "database", "files", "iterators", "lockstep", "options", "reads",
        "side", "writes",
    ];
    cc::Build::new()
        .files(names.map(|name| format!("{sources}/{name}.c")))
        .include(sources)
        .include("../crates/capi/include")
        .define("LINKED", None)
        .flag("-std=gnu11")
        .compile("oracle");
}
