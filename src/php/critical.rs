//! The callables that run under a lock now, and `LockLostException`, which is thrown into them when it is lost
//! (`interrupt: true`).
//!
//! The keeper's thread sets the engine's interrupt flag, and sets it again until it is heard; all else is done here, on
//! the thread that runs PHP, when the engine calls its interrupt function. The exception is held back where it would cut
//! a clean-up in half: see `may_throw`.

use std::{
    cell::{Cell, OnceCell, RefCell},
    ffi::c_void,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
    rc::Rc,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicPtr, Ordering::SeqCst},
    },
};

use ext_php_rs::ffi::{zend_execute_data, zend_fiber, zend_interrupt_function};

use super::{
    between::Way,
    exceptions,
    zend::{self, zend_generator_check_placeholder_frame},
};
use crate::{
    keeper::{self, Kept, Loss},
    lock::{lease::Lease, ports::Alarm},
    stats::{self, Counter},
    sys::{fork, library},
};

/// One call of `synchronized()`.
struct Running {
    lease: Arc<Lease>,
    /// The lease, as the keeper knows it now.
    kept: Cell<Kept>,
    /// The call itself, and the fiber that it is in; null: none.
    frame: *mut zend_execute_data,
    fiber: *mut zend_fiber,
    process: u64,
    /// What was thrown into it.
    thrown: OnceCell<Loss>,
}

thread_local! {
    /// The innermost last, in each fiber.
    static RUNNING: RefCell<Vec<Rc<Running>>> = const { RefCell::new(Vec::new()) };
    /// The fibers of the calls that are about to end.
    static HELD_BACK: RefCell<Vec<*mut zend_fiber>> = const { RefCell::new(Vec::new()) };
    static ALARM: RefCell<Option<(u64, Arc<VmInterrupt>)>> = const { RefCell::new(None) };
}

/// A callable that can be interrupted, until this is dropped.
pub struct Interruptible(Rc<Running>);

impl Interruptible {
    /// Within the frame of `synchronized()`.
    pub fn new(lease: &Arc<Lease>, kept: Kept) -> Self {
        let (frame, fiber) = zend::current_frame_and_fiber();
        let (lease, kept, thrown) = (lease.clone(), Cell::new(kept), OnceCell::new());
        let running = Rc::new(Running { lease, kept, frame, fiber, process: fork::process(), thrown });
        RUNNING.with_borrow_mut(|all| all.push(running.clone()));
        keeper::set_alarm(running.kept.get(), Some(alarm()));
        Self(running)
    }

    /// What was thrown into it.
    pub fn thrown(&self) -> Option<&Loss> {
        self.0.thrown.get()
    }
}

impl Drop for Interruptible {
    fn drop(&mut self) {
        keeper::set_alarm(self.0.kept.get(), None);
        let _ = RUNNING.try_with(|all| all.borrow_mut().retain(|running| !Rc::ptr_eq(running, &self.0)));
    }
}

/// The keeper knows the lease by another number now: its holder had let go of it, and took it up again.
pub fn kept_anew(lease: &Arc<Lease>, kept: Kept) {
    RUNNING.with_borrow(|all| {
        for running in all.iter().filter(|running| Arc::ptr_eq(&running.lease, lease) && running.thrown.get().is_none())
        {
            running.kept.set(kept);
            keeper::set_alarm(kept, Some(alarm()));
        }
    });
}

/// Whether it is the lease of a callable that can be interrupted.
pub fn is_running(lease: &Arc<Lease>) -> bool {
    RUNNING.with_borrow(|all| all.iter().any(|running| Arc::ptr_eq(&running.lease, lease)))
}

/// While a callable's call ends: what frees the lock, and the handler of a warning, are no work to interrupt.
pub struct HeldBack(*mut zend_fiber);

impl HeldBack {
    pub fn new() -> Self {
        let (_, fiber) = zend::current_frame_and_fiber();
        HELD_BACK.with_borrow_mut(|all| all.push(fiber));
        Self(fiber)
    }
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        let _ = HELD_BACK.try_with(|all| {
            let mut all = all.borrow_mut();
            if let Some(index) = all.iter().rposition(|fiber| *fiber == self.0) {
                all.swap_remove(index);
            }
        });
    }
}

/// Nothing of this request runs any more.
pub fn end() {
    let _ = HELD_BACK.try_with(|all| all.borrow_mut().clear());
    let _ = RUNNING.try_with(|all| all.borrow_mut().clear());
    if let Ok(Some((process, alarm))) = ALARM.try_with(RefCell::take) {
        if process == fork::process() {
            alarm.disconnect();
        } else {
            // The parent's keeper may have held its mutex when it forked.
            mem::forget(alarm);
        }
    }
}

/// The interrupt flag of the thread that runs PHP, for as long as that thread has a request.
#[derive(Debug)]
struct VmInterrupt(Mutex<*mut c_void>);

// SAFETY: what it points to is one atomic byte, which any thread may set while it is connected; the mutex sees to it
// that it is.
unsafe impl Send for VmInterrupt {}
// SAFETY: as above.
unsafe impl Sync for VmInterrupt {}

impl VmInterrupt {
    fn disconnect(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = ptr::null_mut();
    }
}

impl Alarm for VmInterrupt {
    fn ring(&self) {
        let flag = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: null, or the flag of a thread whose request has not ended.
        if let Some(flag) = unsafe { flag.cast::<AtomicBool>().as_ref() } {
            flag.store(true, SeqCst);
        }
    }
}

/// Of this thread.
fn alarm() -> Arc<VmInterrupt> {
    let new = || (fork::process(), Arc::new(VmInterrupt(Mutex::new(zend::interrupt_flag().cast()))));
    ALARM.with_borrow_mut(|alarm| {
        if alarm.as_ref().is_some_and(|(process, _)| *process != fork::process()) {
            mem::forget(alarm.take());
        }
        alarm.get_or_insert_with(new).1.clone()
    })
}

type InterruptFunction = unsafe extern "C" fn(*mut zend_execute_data);

/// What was the engine's interrupt function before ours; also that has its work to do.
static PREVIOUS: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// At each module start.
pub fn hook() {
    // SAFETY: read and written by modules while they start and end, on one thread. A function is a pointer.
    unsafe {
        let ours: InterruptFunction = interrupted;
        let before = zend_interrupt_function;
        if before.is_none_or(|before| before as usize != ours as usize) {
            PREVIOUS.store(before.map_or(ptr::null_mut(), |before| before as *mut c_void), SeqCst);
            zend_interrupt_function = Some(ours);
        }
    }
}

/// At each module end. Where another module has hooked itself in after us, ours stays, and the library with it.
pub fn unhook() {
    // SAFETY: as above; what is stored is null or such a function.
    unsafe {
        let ours: InterruptFunction = interrupted;
        if zend_interrupt_function.is_some_and(|current| current as usize == ours as usize) {
            zend_interrupt_function = mem::transmute::<*mut c_void, Option<InterruptFunction>>(PREVIOUS.load(SeqCst));
        } else {
            library::keep_loaded();
        }
    }
}

/// The engine calls it between two opcodes.
unsafe extern "C" fn interrupted(frame: *mut zend_execute_data) {
    // First the others, such as pcntl's, whose handlers may throw: what they raise goes before ours.
    // SAFETY: null, or the function that the engine would have called with this frame.
    unsafe {
        if let Some(previous) = mem::transmute::<*mut c_void, Option<InterruptFunction>>(PREVIOUS.load(SeqCst)) {
            previous(frame);
        }
    }
    // A panic must not pass into the engine; the alarm rings again.
    let _ = catch_unwind(AssertUnwindSafe(throw_if_lost));
}

fn throw_if_lost() {
    let (frame, fiber) = zend::current_frame_and_fiber();
    let is_held_back = HELD_BACK.try_with(|all| all.borrow().contains(&fiber)).unwrap_or(true);
    if is_held_back || zend::has_exception() {
        return;
    }
    let Some((running, loss)) = RUNNING.try_with(|all| lost(&all.borrow(), frame, fiber)).ok().flatten() else {
        return;
    };
    let throw = || {
        exceptions::lost(running.lease.key().name(), &loss, None);
        let _ = running.thrown.set(loss);
        keeper::set_alarm(running.kept.get(), None);
        stats::add(Counter::Interrupts);
    };
    // SAFETY: the frame that runs now on this thread: in one of those that are lost. Nothing runs in it meanwhile.
    unsafe { Way::of(frame).throw(frame, throw) };
}

/// The outermost of those of this fiber that are lost, and that it is not held back from: what is thrown for it ends the
/// others too.
fn lost(all: &[Rc<Running>], frame: *mut zend_execute_data, fiber: *mut zend_fiber) -> Option<(Rc<Running>, Loss)> {
    let here = all.iter().filter(|running| running.fiber == fiber && running.process == fork::process());
    here.filter(|running| running.thrown.get().is_none())
        .filter_map(|running| Some((running, keeper::loss(running.kept.get())?)))
        .find(|(running, _)| may_throw(frame, running.frame))
        .map(|(running, loss)| (running.clone(), loss))
}

/// Whether nothing between the two frames is a clean-up: a `finally` block, those of a generator that is being destroyed
/// included, or a destructor.
fn may_throw(mut frame: *mut zend_execute_data, bottom: *mut zend_execute_data) -> bool {
    while frame != bottom {
        // SAFETY: the frames of this thread, from the innermost one outward. One may stand for the generators that
        // delegate to the one before; then it is their frames that follow.
        let Some(current) =
            (unsafe { frame.as_mut().and_then(|at| zend_generator_check_placeholder_frame(at).as_ref()) })
        else {
            return false;
        };
        if zend::is_in_finally(current) || zend::is_in_destructor(current) {
            return false;
        }
        frame = current.prev_execute_data;
    }
    true
}
