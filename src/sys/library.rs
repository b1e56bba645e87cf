//! This library, as the system has loaded it.

use std::mem::MaybeUninit;

/// From now on it stays in memory, also when its host unloads it: a thread may be left that runs its code, such as one
/// that waits for the system's resolver, which nothing can end.
pub fn keep_loaded() {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    let ours: fn() = keep_loaded;
    // SAFETY: `info` is valid for writing, and its name is a string where it was filled in. The handle is never closed.
    unsafe {
        if libc::dladdr(ours as *const libc::c_void, info.as_mut_ptr()) != 0 {
            let name = (*info.as_ptr()).dli_fname;
            if !name.is_null() {
                libc::dlopen(name, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE);
            }
        }
    }
}
