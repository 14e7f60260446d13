//! Gives the library the name by which the versioned libraries find it
//! (`cargo xtask replace-verbs`) even when it was loaded from elsewhere, and keeps it loaded.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libsoftefa_verbs.so");
    // Handlers of signals and of forks cannot be taken back: nobody may unload what they are in.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
