//! Gives the library the name by which the versioned libraries find it
//! (`cargo xtask replace-verbs`) even when it was loaded from elsewhere.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libsoftefa_verbs.so");
}
