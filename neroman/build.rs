//! How the program is linked.

fn main() {
    // A program that lies at a fixed address has nothing to relocate when it starts. A call of the
    // client is short, and relocations touch more pages than the rest of its start.
    println!("cargo::rustc-link-arg-bins=-no-pie");
    println!("cargo::rerun-if-changed=build.rs");
}
