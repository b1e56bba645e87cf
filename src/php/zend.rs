//! What we use of the engine beyond what ext-php-rs binds. All of it is part of the Zend API of PHP 8.1 and up.

use std::{
    ffi::{c_char, c_int, c_void},
    sync::atomic::{AtomicBool, Ordering::SeqCst},
};

use ext_php_rs::{
    ffi::{
        ext_php_rs_executor_globals, ext_php_rs_zend_object_release, zend_class_entry, zend_execute_data, zend_fiber,
        zend_object, zend_op, zend_op_array, zend_string,
    },
    types::Zval,
};

unsafe extern "C" {
    pub fn zend_parse_arg_double_slow(arg: *const Zval, dest: *mut f64, position: u32) -> bool;
    pub fn zend_parse_arg_long_slow(arg: *const Zval, dest: *mut i64, position: u32) -> bool;
    pub fn zend_parse_arg_bool_slow(arg: *const Zval, dest: *mut bool, position: u32) -> bool;
    pub fn zend_parse_arg_str_slow(arg: *mut Zval, dest: *mut *mut zend_string, position: u32) -> bool;
    pub fn zend_argument_type_error(position: u32, format: *const c_char, ...);
    pub fn zend_argument_value_error(position: u32, format: *const c_char, ...);
    pub fn zend_value_error(format: *const c_char, ...);
    pub fn zend_wrong_callback_error(position: u32, error: *mut c_char);
    #[cfg(php83)]
    pub fn zend_zval_value_name(arg: *const Zval) -> *const c_char;
    #[cfg(not(php83))]
    pub fn zend_zval_type_name(arg: *const Zval) -> *const c_char;
    pub fn zend_get_called_scope(frame: *mut zend_execute_data) -> *mut zend_class_entry;
    pub fn object_init_ex(object: *mut Zval, class: *mut zend_class_entry) -> c_int;
    pub fn zend_update_property(
        scope: *mut zend_class_entry,
        object: *mut zend_object,
        name: *const c_char,
        length: usize,
        value: *mut Zval,
    );
    fn zend_is_unwind_exit(object: *const zend_object) -> bool;
    fn zend_is_graceful_exit(object: *const zend_object) -> bool;
    pub fn zend_generator_check_placeholder_frame(frame: *mut zend_execute_data) -> *mut zend_execute_data;
    pub fn zend_timeout();
    pub fn zend_get_opcode_name(opcode: u8) -> *const c_char;
    #[cfg(php83)]
    fn zend_unregister_ini_entries_ex(module: c_int, kind: c_int);
    #[cfg(not(php83))]
    fn zend_unregister_ini_entries(module: c_int);
    fn php_log_err_with_severity(message: *const c_char, severity: c_int);
    pub fn display_ini_entries(module: *mut c_void);
    pub static spl_ce_LogicException: *mut zend_class_entry;
    pub static spl_ce_RuntimeException: *mut zend_class_entry;
    pub static zend_ce_generator: *mut zend_class_entry;
}

/// An exception is pending, which must not be hidden: `exit` is one of them, inside the engine.
pub fn has_exception() -> bool {
    // SAFETY: the globals of this thread, which runs PHP.
    unsafe { !(*ext_php_rs_executor_globals()).exception.is_null() }
}

/// The exception that is pending; null: none.
pub fn exception() -> *const zend_object {
    // SAFETY: as above.
    unsafe { (*ext_php_rs_executor_globals()).exception }
}

/// Takes the pending exception away while something else runs; `resume` puts it back, untouched.
pub fn suspend_exception() -> *mut zend_object {
    // SAFETY: as above. The reference that the engine holds passes to the caller.
    unsafe { std::mem::replace(&mut (*ext_php_rs_executor_globals()).exception, std::ptr::null_mut()) }
}

/// Puts back what `suspend_exception` took. Of what was thrown meanwhile, an exit wins, for the script or the fiber is
/// to end; the rest is dropped.
pub fn resume_exception(exception: *mut zend_object) {
    let thrown_meanwhile = suspend_exception();
    let (kept, dropped) =
        if is_exit(thrown_meanwhile) { (thrown_meanwhile, exception) } else { (exception, thrown_meanwhile) };
    // SAFETY: the engine takes over the reference to the one; we own that to the other.
    unsafe {
        (*ext_php_rs_executor_globals()).exception = kept;
        if !dropped.is_null() {
            ext_php_rs_zend_object_release(dropped);
        }
    }
}

/// Forgets the settings of a module that ends. The engine does so itself only where a module has nothing to do then.
pub fn unregister_settings(kind: c_int, module: c_int) {
    // SAFETY: called by the engine, with its numbers.
    unsafe {
        #[cfg(php83)]
        zend_unregister_ini_entries_ex(module, kind);
        #[cfg(not(php83))]
        {
            let _ = kind;
            zend_unregister_ini_entries(module);
        }
    }
}

/// Writes to PHP's error log, whatever handler the script has for errors.
pub fn log(message: &str) {
    const NOTICE: c_int = 5;
    // SAFETY: a string that ends in NUL.
    unsafe { php_log_err_with_severity(super::method::c_string(message).as_ptr(), NOTICE) };
}

/// Whether it is what the engine throws for `exit`, or to end a fiber that is destroyed.
pub fn is_exit(exception: *const zend_object) -> bool {
    // SAFETY: null, or an object that lives.
    !exception.is_null() && unsafe { zend_is_unwind_exit(exception) || zend_is_graceful_exit(exception) }
}

/// Whether the interrupt flag was set; clears it.
pub fn take_interrupt() -> bool {
    // SAFETY: one byte on every version, read and written atomically by the engine as well (`zend_atomic_bool`, or a
    // plain byte on 8.1); it lives as long as the thread.
    unsafe {
        let flag = (&raw mut (*ext_php_rs_executor_globals()).vm_interrupt).cast::<AtomicBool>();
        (*flag).load(SeqCst) && (*flag).swap(false, SeqCst)
    }
}

/// Whether the time limit was reached.
pub fn has_timed_out() -> bool {
    // SAFETY: as above.
    unsafe { (*(&raw mut (*ext_php_rs_executor_globals()).timed_out).cast::<AtomicBool>()).load(SeqCst) }
}

/// The engine's interrupt flag of this thread: one byte, as above.
pub fn interrupt_flag() -> *mut AtomicBool {
    // SAFETY: as above; only the address is taken.
    unsafe { (&raw mut (*ext_php_rs_executor_globals()).vm_interrupt).cast() }
}

/// What runs now, and in which fiber; null: in none.
pub fn current_frame_and_fiber() -> (*mut zend_execute_data, *mut zend_fiber) {
    // SAFETY: the globals of this thread, which runs PHP.
    unsafe {
        let globals = ext_php_rs_executor_globals();
        ((*globals).current_execute_data, (*globals).active_fiber)
    }
}

/// The function of a frame, if it is written in PHP.
pub fn op_array(frame: &zend_execute_data) -> Option<&zend_op_array> {
    const INTERNAL: u8 = 1;
    // SAFETY: null (of a frame that stands for another), or a function, which outlives its frame. Which of the union's
    // members it is, says its type, which all of them begin with.
    unsafe {
        let function = frame.func.as_ref()?;
        (function.type_ != INTERNAL).then_some(&function.op_array)
    }
}

/// The index of the opcode that a frame of the function is at; one that it has not: an opcode of the engine's, where an
/// exception is handled.
pub fn place(frame: &zend_execute_data, function: &zend_op_array) -> usize {
    frame.opline.addr().wrapping_sub(function.opcodes.addr()) / size_of::<zend_op>()
}

/// Whether a frame is in a `finally` block. Its end belongs to it: it is the opcode that goes on with what the block
/// has interrupted.
pub fn is_in_finally(frame: &zend_execute_data) -> bool {
    let Some(function) = op_array(frame) else { return false };
    // SAFETY: the function has that many blocks.
    let blocks = unsafe {
        let count = usize::try_from(function.last_try_catch).unwrap_or(0);
        if count == 0 { &[] } else { std::slice::from_raw_parts(function.try_catch_array, count) }
    };
    let Ok(at) = u32::try_from(place(frame, function)) else { return false };
    blocks.iter().any(|block| block.finally_op != 0 && (block.finally_op..=block.finally_end).contains(&at))
}

/// Whether a frame is a destructor's.
pub fn is_in_destructor(frame: &zend_execute_data) -> bool {
    op_array(frame).filter(|function| !function.scope.is_null()).is_some_and(|function| {
        // SAFETY: null, or a string that lives as long as the function.
        let name = unsafe { function.function_name.as_ref() };
        name.is_some_and(|name| name.as_bytes().eq_ignore_ascii_case(b"__destruct"))
    })
}

/// Runs what set the interrupt flag: signal handlers, mostly. It may throw, and it may bail out.
pub fn run_interrupts() {
    // SAFETY: set at start-up of the modules, and only called on the thread that runs PHP, with its current frame.
    unsafe {
        if let Some(function) = ext_php_rs::ffi::zend_interrupt_function {
            function((*ext_php_rs_executor_globals()).current_execute_data);
        }
    }
}
