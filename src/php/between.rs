//! Throwing between two opcodes.
//!
//! The engine unwinds a frame as if the opcode that it stands at had thrown: what that opcode takes over is left to it, and
//! what it puts somewhere counts as put. Where nothing of it has begun, the value that a call has just returned would never
//! be freed, but an argument or a piece of a string would be that nobody has put there yet. So the exception is thrown as
//! if the opcode before had thrown it, which is that call. The engine does the same where it throws into a generator at its
//! `yield`, and since PHP 8.4 it interrupts within the call. As there, an object whose constructor has just returned counts as
//! one whose constructor threw: it is freed, and its destructor does not run.

use std::{ffi::CStr, mem, ptr, slice};

use ext_php_rs::{
    ffi::{
        ZEND_ACC_GENERATOR, ext_php_rs_executor_globals, zend_execute_data, zend_live_range, zend_op, zend_op_array,
        znode_op, zval_ptr_dtor,
    },
    types::Zval,
};

use super::zend::{self, op_array, zend_get_opcode_name};

/// How to throw in a frame.
pub enum Way {
    /// At the opcode that it stands at.
    Here,
    Before(Before),
    Not,
}

/// At the opcode before, with what it has left.
pub struct Before {
    opcode: *const zend_op,
    /// Where its result is, which nobody frees then.
    result: Option<u32>,
}

impl Way {
    /// For the innermost frame.
    ///
    /// # Safety
    ///
    /// It is that.
    pub unsafe fn of(frame: *mut zend_execute_data) -> Self {
        // In a native function, whose caller looks whether it threw.
        // SAFETY: see above.
        let Some(place) = (unsafe { Place::of(frame) }) else { return Self::Here };
        let Some(at) = place.opcode(place.at) else { return Self::Not };
        let before = place.at.checked_sub(1).and_then(|before| place.opcode(before));
        // After a finally block has run, within the try that it belongs to: it would run again.
        if before.is_some_and(|before| has_name(before, |name| name == "ZEND_FAST_CALL")) {
            return Self::Not;
        }
        let takes = place.takes(at);
        if takes == [None; 3] && !counts_as_done(at) {
            return Self::Here;
        }
        // SAFETY: as above.
        if !is_between(unsafe { &*frame }) {
            // A native function that this opcode called has just returned to it, as far as can be told.
            return if counts_as_done(at) { Self::Not } else { Self::Here };
        }
        before.and_then(|before| place.before(before, takes)).map_or(Self::Not, Self::Before)
    }

    /// Throws with `throw`, if it can be thrown, in the frame that this is the way for. What is to be freed is freed at last,
    /// for that may run PHP code.
    ///
    /// # Safety
    ///
    /// Nothing has run in the frame since.
    pub unsafe fn throw(self, frame: *mut zend_execute_data, throw: impl FnOnce()) {
        match self {
            Self::Not => {}
            Self::Here => throw(),
            Self::Before(Before { opcode, result }) => {
                // SAFETY: see above.
                unsafe { (*frame).opline = opcode };
                throw();
                if let Some(var) = result {
                    // SAFETY: a value that nobody else frees; it may run PHP code, which must not find it there.
                    unsafe {
                        let mut left = mem::ManuallyDrop::new(variable(frame, var).replace(Zval::new()));
                        zval_ptr_dtor(&mut *left);
                    }
                }
            }
        }
    }
}

/// A value of a frame; they lie behind it.
fn variable(frame: *mut zend_execute_data, var: u32) -> *mut Zval {
    frame.wrapping_byte_add(var as usize).cast()
}

/// Where a function that is written in PHP stands.
struct Place<'a> {
    frame: *mut zend_execute_data,
    function: &'a zend_op_array,
    at: usize,
}

/// Opcodes that put a class where others put a value.
const CLASSES: [&str; 2] = ["ZEND_FETCH_CLASS", "ZEND_DECLARE_ANON_CLASS"];

impl<'a> Place<'a> {
    /// # Safety
    ///
    /// A frame that lives.
    unsafe fn of(frame: *mut zend_execute_data) -> Option<Self> {
        // SAFETY: see above.
        let current: &'a zend_execute_data = unsafe { &*frame };
        let function = op_array(current)?;
        Some(Self { frame, function, at: zend::place(current, function) })
    }

    fn opcode(&self, index: usize) -> Option<&'a zend_op> {
        // SAFETY: the function has that many.
        unsafe { slice::from_raw_parts(self.function.opcodes, self.function.last as usize) }.get(index)
    }

    /// The values that an opcode takes over: those of its own operands, and of what belongs to it, that are to be freed,
    /// and are not if it throws.
    fn takes(&self, opcode: &zend_op) -> [Option<u32>; 3] {
        let data = self.opcode(self.at + 1).filter(|next| has_name(next, |name| name == "ZEND_OP_DATA"));
        // There it is what is set.
        let sets_second = has_name(opcode, |name| name.starts_with("ZEND_FE_FETCH_"));
        let is_string_of_parts = has_name(opcode, |name| name == "ZEND_ROPE_END");
        let operands = [
            Some((opcode.op1_type, opcode.op1)),
            Some((opcode.op2_type, opcode.op2)).filter(|_| !sets_second),
            data.map(|data| (data.op1_type, data.op1)),
        ];
        operands.map(|operand: Option<(u8, znode_op)>| {
            let (_, node) = operand.filter(|(kind, _)| is_temporary(*kind))?;
            // SAFETY: any bits are a number.
            let var = unsafe { node.var };
            let is_to_be_freed = is_string_of_parts || self.is_counted(var);
            (is_to_be_freed && !self.is_freed_at(self.at, var)).then_some(var)
        })
    }

    /// Whether it is a value that somebody has to free.
    fn is_counted(&self, var: u32) -> bool {
        let set_by =
            (0..self.at).rev().filter_map(|index| self.opcode(index)).find(|opcode| result(opcode) == Some(var));
        let is_class = set_by.is_some_and(|opcode| has_name(opcode, |name| CLASSES.contains(&name)));
        // SAFETY: a variable of this frame, which has been set; a value, but for classes.
        !is_class && unsafe { (*variable(self.frame, var)).u1.v.type_flags } != 0
    }

    /// Whether an exception at that opcode frees the value.
    fn is_freed_at(&self, index: usize, var: u32) -> bool {
        /// What the engine keeps in the lowest bits: how it is to be freed.
        const KIND: u32 = 7;
        let count = usize::try_from(self.function.last_live_range).unwrap_or(0);
        let ranges: &[zend_live_range] = if count == 0 {
            &[]
        } else {
            // SAFETY: the function has that many.
            unsafe { slice::from_raw_parts(self.function.live_range, count) }
        };
        ranges
            .iter()
            .any(|range| range.var & !KIND == var && (range.start as usize..range.end as usize).contains(&index))
    }

    /// If all is in order when the opcode before has thrown.
    fn before(&self, before: &zend_op, takes: [Option<u32>; 3]) -> Option<Before> {
        // Nothing is ever interrupted right after these: a call that would count as not begun, and what gives no value.
        let has_begun = |name: &str| name.starts_with("ZEND_INIT_") || name.starts_with("ZEND_ROPE_");
        if has_name(before, |name| has_begun(name) || CLASSES.contains(&name)) {
            return None;
        }
        let result = result(before);
        let is_in_order = |var| Some(var) == result || self.is_freed_at(self.at - 1, var);
        // Where it is to be used later, it has been set as well.
        let is_set = |var| takes.contains(&Some(var)) || self.is_freed_at(self.at, var) || !self.is_counted(var);
        let is_possible = takes.into_iter().flatten().all(is_in_order) && result.is_none_or(is_set);
        is_possible.then_some(Before { opcode: before, result })
    }
}

/// Where an opcode puts what it gives, if the engine frees that.
fn result(opcode: &zend_op) -> Option<u32> {
    // SAFETY: any bits are a number.
    is_temporary(opcode.result_type).then_some(unsafe { opcode.result.var })
}

/// Whether the engine frees it: its own results, and what a call has returned.
fn is_temporary(kind: u8) -> bool {
    const TMP_OR_VAR: u8 = 1 << 1 | 1 << 2;
    kind & TMP_OR_VAR != 0
}

/// Whether it counts as done where a frame is unwound: an argument as put, a call as made, a piece of a string as there,
/// and what a loop had as freed where `return`, `break` or `continue` leave it.
fn counts_as_done(opcode: &zend_op) -> bool {
    const FREED_ON_RETURN: u32 = 1;
    has_name(opcode, |name| match name {
        "ZEND_CALLABLE_CONVERT" | "ZEND_ROPE_ADD" => true,
        "ZEND_FREE" | "ZEND_FE_FREE" => opcode.extended_value & FREED_ON_RETURN != 0,
        name => ["ZEND_SEND_", "ZEND_DO_"].iter().any(|prefix| name.starts_with(prefix)),
    })
}

/// By the name, for each version has its own numbers.
fn has_name(opcode: &zend_op, is_it: impl Fn(&str) -> bool) -> bool {
    // SAFETY: any number is allowed; null, or a string that lives for ever.
    let name = unsafe {
        let name = zend_get_opcode_name(opcode.opcode);
        if name.is_null() { c"" } else { CStr::from_ptr(name) }
    };
    name.to_str().is_ok_and(is_it)
}

/// Whether the frame's opcode has not begun: then nothing is on the engine's stack behind the frame and the calls that it
/// prepares. A native function that was called within the opcode has left its frame there.
fn is_between(frame: &zend_execute_data) -> bool {
    const SLOT: usize = size_of::<Zval>();
    const FRAME: usize = size_of::<zend_execute_data>().div_ceil(SLOT);
    let mut last = frame;
    // The innermost of the calls that the frame prepares. A native function's frame has never set it.
    let call = |frame: &zend_execute_data| if op_array(frame).is_some() { frame.call } else { ptr::null_mut() };
    // A generator is not on the stack; what has resumed it is.
    while call(last).is_null() && op_array(last).map_or(last.func.is_null(), is_generator) {
        // SAFETY: the frames of this thread, from the innermost one outward.
        let Some(outer) = (unsafe { last.prev_execute_data.as_ref() }) else { return false };
        last = outer;
    }
    // SAFETY: null, or a frame that lives.
    let last = unsafe { call(last).as_ref() }.unwrap_or(last);
    // SAFETY: it is the number of arguments in each frame.
    let arguments = unsafe { last.This.u2.num_args };
    let variables = op_array(last).map_or(0, |function| {
        let all = function.last_var.unsigned_abs() + function.T;
        all - function.num_args.min(arguments)
    });
    let end = ptr::from_ref(last).addr() + (FRAME + arguments as usize + variables as usize) * SLOT;
    // SAFETY: the globals of this thread, which runs PHP.
    let top = unsafe { (*ext_php_rs_executor_globals()).vm_stack_top }.addr();
    // Observers have a slot or two behind a native function's; another frame would be more.
    (end..end + FRAME * SLOT).contains(&top)
}

fn is_generator(function: &zend_op_array) -> bool {
    function.fn_flags & ZEND_ACC_GENERATOR != 0
}
