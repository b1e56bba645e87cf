//! Arguments, taken as PHP's own functions take them: the engine's coercion in weak mode, none under `strict_types`,
//! and its errors, which name function, position and parameter.

use std::{ffi::CStr, ptr::null_mut, time::Duration};

use ext_php_rs::{
    class::RegisteredClass,
    ffi::{zend_is_callable_ex, zend_string, zend_wrong_parameters_count_error},
    types::{ZendClassObject, ZendObject, Zval},
    zend::ExecuteData,
};

use super::{
    exceptions,
    method::{Stop, c_string},
    zend,
};
use crate::lock::{error::BadValue, ttl};

pub struct Args<'a> {
    frame: &'a mut ExecuteData,
}

/// Positions count from 1, as in messages.
impl<'a> Args<'a> {
    pub fn new(frame: &'a mut ExecuteData) -> Self {
        Self { frame }
    }

    pub fn count(&self) -> u32 {
        // SAFETY: all members of the union are of one type.
        unsafe { self.frame.This.u2.num_args }
    }

    pub fn expect(&self, least: u32, most: u32) -> Result<(), Stop> {
        if (least..=most).contains(&self.count()) {
            return Ok(());
        }
        // SAFETY: throws, naming the function that runs.
        unsafe { zend_wrong_parameters_count_error(least, most) };
        Err(Stop::Thrown)
    }

    /// The object whose method runs.
    pub fn this<T: RegisteredClass>(&mut self) -> Result<&'a T, Stop> {
        // SAFETY: the object outlives the call: its caller holds a reference.
        let object = self.frame.get_object::<T>().map(|object| unsafe { &*std::ptr::from_mut(object) });
        match object.and_then(|object: &'a ZendClassObject<T>| object.obj.as_ref()) {
            Some(this) => Ok(this),
            None => {
                exceptions::error(&format!("The {} object has not been constructed", T::CLASS_NAME));
                Err(Stop::Thrown)
            }
        }
    }

    /// The same, of a class that holds nothing of ours.
    pub fn object(&mut self) -> Option<&mut ZendObject> {
        self.frame.get_self()
    }

    /// The class that a static method was called on.
    pub fn called_class(&mut self) -> *mut ext_php_rs::ffi::zend_class_entry {
        // SAFETY: the frame that runs.
        unsafe { zend::zend_get_called_scope(self.frame) }
    }

    pub fn string(&mut self, position: u32) -> Result<&'a [u8], Stop> {
        let value = self.value(position);
        self.as_string(position, value, c"must be of type string, %s given")
    }

    pub fn optional_string(&mut self, position: u32) -> Result<Option<&'a [u8]>, Stop> {
        match self.given(position) {
            None => Ok(None),
            value => self.as_string(position, value, c"must be of type ?string, %s given").map(Some),
        }
    }

    pub fn optional_float(&mut self, position: u32) -> Result<Option<f64>, Stop> {
        match self.given(position) {
            None => Ok(None),
            value => self.as_float(position, value, c"must be of type ?float, %s given").map(Some),
        }
    }

    pub fn int(&mut self, position: u32, default: i64) -> Result<i64, Stop> {
        match self.value(position) {
            None => Ok(default),
            value => self.as_int(position, value, c"must be of type int, %s given"),
        }
    }

    pub fn optional_int(&mut self, position: u32) -> Result<Option<i64>, Stop> {
        match self.given(position) {
            None => Ok(None),
            value => self.as_int(position, value, c"must be of type ?int, %s given").map(Some),
        }
    }

    /// One string, or several in an array. Copies: what an array refers to may be gone when the next argument is read, for
    /// a conversion may run PHP code.
    pub fn optional_strings(&mut self, position: u32) -> Result<Option<Vec<Vec<u8>>>, Stop> {
        let Some(value) = self.given(position) else { return Ok(None) };
        if !value.is_array() {
            let expected = c"must be of type array|string|null, %s given";
            return self.as_string(position, Some(value), expected).map(|string| Some(vec![string.into()]));
        }
        let Some(array) = value.array() else { return Err(Stop::Thrown) };
        let mut strings = Vec::with_capacity(array.len());
        for element in array.values().map(Zval::dereference) {
            match element.zend_str() {
                Some(string) => strings.push(string.as_bytes().into()),
                None => return Err(self.type_error(position, element, c"must hold nothing but strings, %s given")),
            }
        }
        Ok(Some(strings))
    }

    /// Seconds to wait.
    pub fn wait(&mut self, position: u32) -> Result<Option<Duration>, Stop> {
        let value = self.value(position);
        self.as_wait(position, value, c"must be of type float, %s given")
    }

    pub fn optional_wait(&mut self, position: u32) -> Result<Option<Duration>, Stop> {
        let value = self.given(position);
        self.as_wait(position, value, c"must be of type ?float, %s given")
    }

    pub fn bool(&mut self, position: u32, default: bool) -> Result<bool, Stop> {
        match self.value(position) {
            None => Ok(default),
            value => self.as_bool(position, value, c"must be of type bool, %s given"),
        }
    }

    pub fn optional_bool(&mut self, position: u32) -> Result<Option<bool>, Stop> {
        match self.given(position) {
            None => Ok(None),
            value => self.as_bool(position, value, c"must be of type ?bool, %s given").map(Some),
        }
    }

    pub fn callable(&mut self, position: u32) -> Result<&'a mut Zval, Stop> {
        let Some(value) = self.value(position) else { return Err(Stop::Thrown) };
        let mut error = null_mut();
        // SAFETY: the value is valid; `error` receives a string that the thrower below frees; the rest is not asked for.
        let is_callable = unsafe { zend_is_callable_ex(value, null_mut(), 0, null_mut(), null_mut(), &mut error) };
        if is_callable {
            return Ok(value);
        }
        // SAFETY: throws, and frees `error`.
        unsafe { zend::zend_wrong_callback_error(position, error) };
        Err(Stop::Thrown)
    }

    /// The value of a check; a value that it refuses is a `\ValueError` that names the parameter.
    pub fn check<T>(&self, position: u32, checked: Result<T, BadValue>) -> Result<T, Stop> {
        checked.map_err(|BadValue(message)| {
            // SAFETY: throws; the format takes one string.
            unsafe { zend::zend_argument_value_error(position, c"%s".as_ptr(), c_string(&message).as_ptr()) };
            Stop::Thrown
        })
    }

    fn value(&mut self, position: u32) -> Option<&'a mut Zval> {
        if position > self.count() {
            return None;
        }
        // SAFETY: there are that many arguments, and they live as long as the frame.
        unsafe { self.frame.zend_call_arg(position as usize - 1) }.map(Zval::dereference_mut)
    }

    /// None: left out, or null.
    fn given(&mut self, position: u32) -> Option<&'a mut Zval> {
        self.value(position).filter(|value| !value.is_null())
    }

    fn as_string(&self, position: u32, value: Option<&'a mut Zval>, expected: &CStr) -> Result<&'a [u8], Stop> {
        let Some(value) = value else { return Err(Stop::Thrown) };
        if !value.is_string() {
            let mut converted: *mut zend_string = null_mut();
            // SAFETY: converts in place; the frame goes on to own the string.
            if !unsafe { zend::zend_parse_arg_str_slow(value, &mut converted, position) } {
                return Err(self.type_error(position, value, expected));
            }
        }
        Ok(value.zend_str().map_or(&[], |string| string.as_bytes()))
    }

    fn as_float(&self, position: u32, value: Option<&'a mut Zval>, expected: &CStr) -> Result<f64, Stop> {
        let Some(value) = value else { return Err(Stop::Thrown) };
        if let Some(float) = value.double().filter(|_| value.is_double()) {
            return Ok(float);
        }
        let mut float = 0.0;
        // SAFETY: both are valid.
        if unsafe { zend::zend_parse_arg_double_slow(value, &mut float, position) } {
            return Ok(float);
        }
        Err(self.type_error(position, value, expected))
    }

    fn as_int(&self, position: u32, value: Option<&'a mut Zval>, expected: &CStr) -> Result<i64, Stop> {
        let Some(value) = value else { return Err(Stop::Thrown) };
        if let Some(int) = value.long().filter(|_| value.is_long()) {
            return Ok(int);
        }
        let mut int = 0;
        // SAFETY: both are valid.
        if unsafe { zend::zend_parse_arg_long_slow(value, &mut int, position) } {
            return Ok(int);
        }
        Err(self.type_error(position, value, expected))
    }

    /// A bool is refused in every mode: as a number it would silently mean a second, or nothing.
    fn as_wait(&self, position: u32, value: Option<&'a mut Zval>, expected: &CStr) -> Result<Option<Duration>, Stop> {
        match value {
            None => Ok(None),
            Some(value) if value.is_bool() => Err(self.type_error(position, value, expected)),
            value => {
                let seconds = self.as_float(position, value, expected)?;
                self.check(position, ttl::wait_from_seconds(seconds)).map(Some)
            }
        }
    }

    fn as_bool(&self, position: u32, value: Option<&'a mut Zval>, expected: &CStr) -> Result<bool, Stop> {
        let Some(value) = value else { return Err(Stop::Thrown) };
        if value.is_bool() {
            return Ok(value.is_true());
        }
        let mut bool = false;
        // SAFETY: both are valid.
        if unsafe { zend::zend_parse_arg_bool_slow(value, &mut bool, position) } {
            return Ok(bool);
        }
        Err(self.type_error(position, value, expected))
    }

    fn type_error(&self, position: u32, value: &Zval, expected: &CStr) -> Stop {
        // SAFETY: a static string; the format takes one string. Nothing is thrown where an exception is pending.
        unsafe {
            #[cfg(php83)]
            let name = zend::zend_zval_value_name(value);
            #[cfg(not(php83))]
            let name = zend::zend_zval_type_name(value);
            zend::zend_argument_type_error(position, expected.as_ptr(), name);
        }
        Stop::Thrown
    }
}
