//! Interposed functions that forward a path.

/// Defines functions of the C library that redirect `path` and call the next definition with the
/// result. Before the next definition is known, `unknown` answers instead, because callers in
/// signal handlers must not wait for the dynamic linker. Functions that allocate are not called
/// there, so those with `#[found_by_callers]` wait, and `unknown` stands for a C library without
/// them. For device files of ours there is an answer of their own, given which it is; for the
/// connection manager's file, where it is opened, another.
macro_rules! forward {
    ($(
        $(#[$when:ident])?
        fn $name:ident($($before:ident: $before_type:ty,)* [$path:ident] $(, $after:ident: $after_type:ty)*)
            -> $result:ty, $unknown:expr $(, device($node:ident) $device:expr)? $(, rdma_cm $rdma_cm:expr)?;
    )*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(
                $($before: $before_type,)*
                $path: *const std::ffi::c_char
                $(, $after: $after_type)*
            ) -> $result {
                type Function = unsafe extern "C" fn(
                    $($before_type,)* *const std::ffi::c_char $(, $after_type)*
                ) -> $result;
                if $crate::paths::is_unreadable($path) {
                    // SAFETY: the program's arguments, of which the next definition judges.
                    return unsafe { pass_on($($before,)* $path $(, $after)*) };
                }
                $(
                    // SAFETY: the program's arguments; the path is a C string or null.
                    if let Some($node) = unsafe { $crate::devnode::find($path) } {
                        // SAFETY: the program's arguments, of which those that are written to are
                        // writable.
                        return unsafe { $device };
                    }
                )?
                $(
                    // SAFETY: as above.
                    if unsafe { $crate::devnode::find($path) } == Some($crate::devnode::Node::RdmaCm) {
                        return $rdma_cm;
                    }
                )?
                /// Calls the next definition.
                #[inline]
                unsafe fn pass_on(
                    $($before: $before_type,)*
                    $path: *const std::ffi::c_char
                    $(, $after: $after_type)*
                ) -> $result {
                    match next::$name.get() {
                        // SAFETY: the program's arguments, but for a path that is a C string, too;
                        // the address is that of a function of this type.
                        Some(next) => unsafe {
                            std::mem::transmute::<*mut std::ffi::c_void, Function>(next)(
                                $($before,)* $path $(, $after)*
                            )
                        },
                        None => $unknown,
                    }
                }

                /// Calls it with the path in the tree. Its place takes a page of the stack, which
                /// a handler of signals may not have for a path that is none of ours.
                #[cold]
                #[inline(never)]
                unsafe fn redirect(
                    $($before: $before_type,)*
                    $path: *const std::ffi::c_char
                    $(, $after: $after_type)*
                ) -> $result {
                    // SAFETY: the program's arguments; the path is a C string.
                    let redirected = unsafe { $crate::paths::Redirected::of($path) };
                    // SAFETY: as above; the other path lives as long as this call.
                    unsafe { pass_on($($before,)* redirected.as_ptr() $(, $after)*) }
                }

                // SAFETY: the program's arguments; the path is a C string or null.
                if unsafe { $crate::paths::may_be_ours($path) } {
                    // SAFETY: as above.
                    return unsafe { redirect($($before,)* $path $(, $after)*) };
                }
                // SAFETY: as above.
                unsafe { pass_on($($before,)* $path $(, $after)*) }
            }
        )*

        #[allow(non_upper_case_globals, reason = "named as the functions that they are the next definitions of")]
        mod next {
            use $crate::next::{Next, c_name};
            $(pub(super) static $name: Next = Next::new(c_name!($name))$(.$when())?;)*
            pub(super) static ALL: &[&Next] = &[$(&$name),*];
        }

        /// Looks the next definitions up before the program runs.
        #[used]
        #[unsafe(link_section = ".init_array")]
        static RESOLVE: extern "C" fn() = resolve_all;

        extern "C" fn resolve_all() {
            next::ALL.iter().for_each(|next| next.resolve());
        }
    };
}

/// Returns the result of a system call like the C library: -1, with the reason in `errno`.
macro_rules! call {
    ($number:expr, $($argument:expr),+) => {
        // SAFETY: the program's arguments, or the same in another form.
        unsafe { std::ffi::c_int::try_from(libc::syscall($number, $($argument),+)).unwrap_or(-1) }
    };
}

pub(super) use {call, forward};
