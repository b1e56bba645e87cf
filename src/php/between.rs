//! Throwing between two opcodes.
//!
//! The engine unwinds a frame as if the opcode that it stands at had thrown: what that opcode takes over is left to it, and
//! what it puts somewhere counts as put. Where nothing of it has begun, the value that a call has just returned would never
//! be freed, but an argument or a piece of a string would be that nobody has put there yet. So the exception is thrown as
//! if the opcode before had thrown it, which is that call. The engine does the same where it throws into a generator at its
//! `yield`; what is thrown by a signal's handler it throws as it comes.

use std::{ffi::CStr, ptr, slice};

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
    /// At the one before, whose result is to be freed, if it has one.
    Before(*const zend_op, Option<u32>),
    Not,
}

impl Way {
    /// For the innermost frame.
    pub fn of(frame: &zend_execute_data) -> Self {
        // In a native function, whose caller looks whether it threw.
        let Some(place) = Place::of(frame) else { return Self::Here };
        let Some(at) = place.opcode(place.at) else { return Self::Not };
        let before = place.at.checked_sub(1).and_then(|before| place.opcode(before));
        if before.is_some_and(|before| has_name(before, |name| name == "ZEND_FAST_CALL")) {
            // Still in the try whose finally block has just run: that would run again.
            return Self::Not;
        }
        let takes = place.takes(at);
        if takes == [None; 3] && !puts(at) {
            return Self::Here;
        }
        if !is_between(frame) {
            // A native function that this opcode called has just returned to it, as far as can be told.
            return if puts(at) { Self::Not } else { Self::Here };
        }
        let Some(before) = before else { return Self::Not };
        // SAFETY: any bits are a number.
        let result = is_temporary(before.result_type).then_some(unsafe { before.result.var });
        let is_in_order = |var| Some(var) == result || place.is_freed_at(place.at - 1, var);
        let is_taken = |var| takes.contains(&Some(var));
        if takes.into_iter().flatten().all(is_in_order) && result.is_none_or(is_taken) {
            Self::Before(before, result)
        } else {
            Self::Not
        }
    }

    /// Throws with `throw`, in the frame that this is the way for. False: it cannot be thrown there.
    ///
    /// # Safety
    ///
    /// Nothing has run in the frame since.
    pub unsafe fn throw(self, frame: &mut zend_execute_data, throw: impl FnOnce()) -> bool {
        match self {
            Self::Not => return false,
            Self::Here => throw(),
            Self::Before(opcode, result) => {
                frame.opline = opcode;
                throw();
                if let Some(var) = result {
                    // SAFETY: a variable of this frame that the opcode has set, and that nobody else frees.
                    unsafe {
                        let value = ptr::from_mut(frame).byte_add(var as usize).cast::<Zval>();
                        zval_ptr_dtor(value);
                        (*value).u1.type_info = 0;
                    }
                }
            }
        }
        true
    }
}

/// Where a function that is written in PHP stands.
struct Place<'a> {
    function: &'a zend_op_array,
    at: usize,
}

impl<'a> Place<'a> {
    fn of(frame: &'a zend_execute_data) -> Option<Self> {
        let function = op_array(frame)?;
        Some(Self { function, at: zend::place(frame, function) })
    }

    fn opcode(&self, index: usize) -> Option<&'a zend_op> {
        // SAFETY: the function has that many.
        unsafe { slice::from_raw_parts(self.function.opcodes, self.function.last as usize) }.get(index)
    }

    /// The values that an opcode takes over: those of its own operands, and of what belongs to it, that are not freed if it
    /// throws.
    fn takes(&self, opcode: &zend_op) -> [Option<u32>; 3] {
        let data = self.opcode(self.at + 1).filter(|next| has_name(next, |name| name == "ZEND_OP_DATA"));
        let operands = [
            Some((opcode.op1_type, opcode.op1)),
            Some((opcode.op2_type, opcode.op2)),
            data.map(|data| (data.op1_type, data.op1)),
        ];
        operands.map(|operand: Option<(u8, znode_op)>| {
            let (_, node) = operand.filter(|(kind, _)| is_temporary(*kind))?;
            // SAFETY: any bits are a number.
            Some(unsafe { node.var }).filter(|var| !self.is_freed_at(self.at, *var))
        })
    }

    /// Whether an exception at that opcode frees the value.
    fn is_freed_at(&self, index: usize, var: u32) -> bool {
        /// What the engine keeps in the lowest bits: why it is to be freed.
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
}

/// Whether the engine frees it: its own results, and what a call has returned.
fn is_temporary(kind: u8) -> bool {
    const TMP_OR_VAR: u8 = 1 << 1 | 1 << 2;
    kind & TMP_OR_VAR != 0
}

/// Whether it counts as done where a frame is unwound: an argument as put, a call as made, a piece of a string as there.
fn puts(opcode: &zend_op) -> bool {
    has_name(opcode, |name| {
        let calls = ["ZEND_SEND_", "ZEND_DO_"].iter().any(|prefix| name.starts_with(prefix));
        calls || ["ZEND_CALLABLE_CONVERT", "ZEND_ROPE_ADD"].contains(&name)
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
    // A generator is not on the stack; what has resumed it is.
    while last.call.is_null() && op_array(last).map_or(last.func.is_null(), is_generator) {
        // SAFETY: the frames of this thread, from the innermost one outward.
        let Some(outer) = (unsafe { last.prev_execute_data.as_ref() }) else { return false };
        last = outer;
    }
    // SAFETY: null, or the innermost of the calls that the frame prepares.
    let last = unsafe { last.call.as_ref() }.unwrap_or(last);
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
