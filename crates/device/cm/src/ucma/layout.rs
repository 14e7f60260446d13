//! Structures of the kernel's interface as bytes, in the byte order of the machine.

/// A type with a fixed position in a structure.
pub(crate) trait Plain: Sized {
    const LEN: usize;
    /// Reads it from bytes of at least its length.
    fn read(bytes: &[u8]) -> Self;
    /// Writes it into bytes of at least its length.
    fn write(&self, bytes: &mut [u8]);
}

macro_rules! number {
    ($($type:ty),+) => {$(
        impl Plain for $type {
            const LEN: usize = size_of::<$type>();

            fn read(bytes: &[u8]) -> Self {
                let mut number = [0; size_of::<$type>()];
                number.copy_from_slice(&bytes[..Self::LEN]);
                Self::from_ne_bytes(number)
            }

            fn write(&self, bytes: &mut [u8]) {
                bytes[..Self::LEN].copy_from_slice(&self.to_ne_bytes());
            }
        }
    )+};
}

number!(u8, u16, u32, u64);

impl<const N: usize> Plain for [u8; N] {
    const LEN: usize = N;

    fn read(bytes: &[u8]) -> Self {
        let mut out = [0; N];
        out.copy_from_slice(&bytes[..N]);
        out
    }

    fn write(&self, bytes: &mut [u8]) {
        bytes[..N].copy_from_slice(self);
    }
}

/// A structure of the headers, for the test that compiles against them.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Its name in C, without `struct`.
    pub name: &'static str,
    /// Length in bytes.
    pub len: usize,
    /// C name, offset and length of each field.
    pub fields: &'static [(&'static str, usize, usize)],
}

/// Defines a structure of `$len` bytes; each field has its type, its offset, and its name in C
/// where that differs. Reserved bytes belong to no field: they are skipped, and written as zero.
macro_rules! layout {
    (
        $(#[$doc:meta])*
        $name:ident = $c_name:literal, $len:literal {
            $($(#[$field_doc:meta])* $field:ident: $type:ty = $at:literal $(as $c_field:literal)?,)+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)+
        }

        impl $name {
            /// Length in bytes.
            pub const LEN: usize = $len;

            /// The layout, for the comparison with the headers.
            pub const LAYOUT: crate::ucma::Layout = crate::ucma::Layout {
                name: $c_name,
                len: $len,
                fields: &[$((
                    layout!(@name $field $($c_field)?),
                    $at,
                    <$type as $crate::ucma::layout::Plain>::LEN,
                ),)+],
            };

            /// Reads the structure from the start of `bytes`; `None` when they are too few.
            #[must_use]
            pub fn parse(bytes: &[u8]) -> Option<Self> {
                let bytes = bytes.get(..Self::LEN)?;
                Some($crate::ucma::layout::Plain::read(bytes))
            }

            /// Returns the structure's bytes.
            #[must_use]
            pub fn emit(&self) -> [u8; $len] {
                let mut bytes = [0; $len];
                $crate::ucma::layout::Plain::write(self, &mut bytes);
                bytes
            }
        }

        impl Default for $name {
            /// Returns a structure with every byte zero.
            fn default() -> Self {
                $crate::ucma::layout::Plain::read(&[0; $len])
            }
        }

        impl $crate::ucma::layout::Plain for $name {
            const LEN: usize = $len;

            fn read(bytes: &[u8]) -> Self {
                Self { $($field: $crate::ucma::layout::Plain::read(&bytes[$at..]),)+ }
            }

            fn write(&self, bytes: &mut [u8]) {
                $($crate::ucma::layout::Plain::write(&self.$field, &mut bytes[$at..]);)+
            }
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $c_field:literal) => { $c_field };
}

pub(crate) use layout;
