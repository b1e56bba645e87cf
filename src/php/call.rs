//! Calls a callable of PHP's so that we are there again however it ends.

use std::panic::AssertUnwindSafe;

use ext_php_rs::{ffi::_call_user_function_impl, types::Zval, zend::try_catch};

use super::{method::Stop, zend};

/// What it returned; or that it threw (or called `exit`, which is thrown inside the engine); or that the engine
/// bailed out of it, on a fatal error or a limit. A bailout passes over the frames in between, of which none is ours.
pub fn guarded(callable: &mut Zval) -> Result<Zval, Stop> {
    let mut value = Zval::new();
    let called = try_catch(AssertUnwindSafe(|| {
        // SAFETY: the callable was checked, it takes no arguments, and the value is valid for writing.
        unsafe {
            _call_user_function_impl(
                std::ptr::null_mut(),
                callable,
                &mut value,
                0,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
    }));
    if called.is_err() {
        // What the value may hold by now is the engine's to free.
        std::mem::forget(value);
        return Err(Stop::Bailout);
    }
    if zend::has_exception() { Err(Stop::Thrown) } else { Ok(dereferenced(value)) }
}

fn dereferenced(value: Zval) -> Zval {
    if value.is_reference() { value.dereference().shallow_clone() } else { value }
}

/// Its body would run after the release.
pub fn is_generator(value: &Zval) -> bool {
    // SAFETY: a class of the engine's, which lives as long as it.
    let generator = unsafe { zend::zend_ce_generator.as_ref() };
    value.object().zip(generator).is_some_and(|(object, class)| object.instance_of(class))
}
