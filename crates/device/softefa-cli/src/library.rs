//! Finding the adapter library that is preloaded, and the versioned libraries beside it.

use std::env;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::args::ReplaceVerbs;
use crate::failure::Failure;

/// File name of the adapter library.
const NAME: &str = "libsoftefa_verbs.so";
/// Directory of the versioned `libibverbs.so.1` and `libefa.so.1`, beside the adapter library.
const REPLACEMENTS: &str = "replace-verbs";
/// The variable that names the library when `--library` does not.
const ENV_LIBRARY: &str = "SOFTEFA_LIBRARY";

/// Returns whether a path in a list of the loader belongs to the adapter.
pub(crate) fn is_ours(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == NAME || name == REPLACEMENTS)
}

/// Returns the adapter library: `--library`, otherwise `SOFTEFA_LIBRARY`, otherwise near this
/// program.
///
/// # Errors
/// The named file does not exist; or none was found, with the places that were searched.
pub(crate) fn find(option: Option<&Path>) -> Result<PathBuf, Failure> {
    let named = option
        .map(Path::to_path_buf)
        .or_else(|| env::var_os(ENV_LIBRARY).filter(|value| !value.is_empty()).map(PathBuf::from));
    if let Some(path) = named {
        let library = absolute(&path).ok_or_else(|| {
            Failure::new(format!(
                "adapter library {} not found; check --library and {ENV_LIBRARY}",
                path.display()
            ))
        })?;
        // The loader would ignore it, and the program would run without a device.
        if !is_elf(&library) {
            return Err(Failure::new(format!(
                "{} is no shared library; check --library and {ENV_LIBRARY}",
                path.display()
            )));
        }
        return Ok(library);
    }
    let program = env::current_exe().map_err(|error| {
        Failure::new(format!("cannot find my own path: {error}; use --library"))
    })?;
    let places = places_near(&program);
    places.iter().find_map(|dir| absolute(&dir.join(NAME))).ok_or_else(|| {
        let places: Vec<_> = places.iter().map(|dir| dir.display().to_string()).collect();
        Failure::of_machine(format!(
            "{NAME} not found in {}; build it (cargo build -p softefa-verbs) or use --library",
            places.join(", ")
        ))
    })
}

/// Returns the directory of versioned libraries that belongs to `library`, unless it is not wanted.
///
/// # Errors
/// It was requested by name and does not exist.
pub(crate) fn replacements(
    library: &Path,
    wanted: ReplaceVerbs,
) -> Result<Option<PathBuf>, Failure> {
    let dir = library.with_file_name(REPLACEMENTS);
    match wanted {
        ReplaceVerbs::No => Ok(None),
        _ if dir.join("libibverbs.so.1").is_file() => Ok(Some(dir)),
        ReplaceVerbs::Auto => Ok(None),
        ReplaceVerbs::Yes => Err(Failure::new(format!(
            "no versioned libraries in {}; make them with `make build`, or leave --replace-verbs out",
            dir.display()
        ))),
    }
}

/// Returns the places to search: beside the program (a cargo target directory) and in the `lib` of
/// its prefix (installed).
fn places_near(program: &Path) -> Vec<PathBuf> {
    let dir = program.parent().unwrap_or_else(|| Path::new("/"));
    let mut places = vec![dir.to_path_buf()];
    if let Some(prefix) = dir.parent() {
        places.push(prefix.join("lib"));
        places.push(prefix.join("lib/softefa"));
    }
    places
}

/// Returns whether the file begins like a program or shared library.
pub(crate) fn is_elf(path: &Path) -> bool {
    const ELF: &[u8; 4] = b"\x7fELF";
    let mut head = [0; ELF.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == *ELF
}

/// Makes the path absolute, because the loader resolves it against the program's working directory.
/// `None` when there is no such file.
fn absolute(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().filter(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_beside_the_program_and_in_its_prefix() {
        let places = places_near(Path::new("/opt/x/bin/softefa"));
        assert_eq!(places[0], Path::new("/opt/x/bin"));
        assert_eq!(places[1], Path::new("/opt/x/lib"));
    }

    #[test]
    fn versioned_libraries_are_used_when_they_are_there() {
        let dir = tempfile::tempdir().unwrap();
        let library = dir.path().join(NAME);
        let find = |wanted| replacements(&library, wanted);
        assert_eq!(find(ReplaceVerbs::Auto), Ok(None));
        let text = find(ReplaceVerbs::Yes).unwrap_err().to_string();
        assert!(text.contains(dir.path().to_str().unwrap()), "{text}");
        let replacements = dir.path().join(REPLACEMENTS);
        std::fs::create_dir(&replacements).unwrap();
        std::fs::write(replacements.join("libibverbs.so.1"), "").unwrap();
        assert_eq!(find(ReplaceVerbs::Auto), Ok(Some(replacements.clone())));
        assert_eq!(find(ReplaceVerbs::Yes), Ok(Some(replacements)));
        assert_eq!(find(ReplaceVerbs::No), Ok(None));
    }

    #[test]
    fn named_library_must_exist() {
        let failure = find(Some(Path::new("/nonexistent/lib.so"))).unwrap_err();
        assert!(failure.to_string().contains("/nonexistent/lib.so"), "{failure}");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "no library").unwrap();
        let failure = find(Some(file.path())).unwrap_err();
        assert!(failure.to_string().contains("is no shared library"), "{failure}");
    }
}
