//! The libibverbs and efadv C ABI of Soft-EFA, as a preloadable library
