//! How the program is linked.

fn main() {
    // A program that lies at a fixed address has nothing to relocate when it starts. A call of the
    // client is short, and relocations touch more pages than the rest of its start.
    // A static program is linked with start code for `static-pie`, which `-no-pie` contradicts.
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|set| set == value);
    let features = std::env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    let is_static = features.split(',').any(|feature| feature == "crt-static");
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") && !is_static {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
