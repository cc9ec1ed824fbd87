//! Where Python's memory is seen, and ours is shown to Python: all `unsafe` that there is.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::{PyErr, ffi};

use crate::growing::Buffer;

/// Bytes-like objects that stay where they are while this lives.
pub struct Bodies(Vec<PyBuffer<u8>>);

impl Bodies {
    /// None if one has no bytes.
    pub fn of(objects: &[Bound<'_, PyAny>]) -> Option<Self> {
        let exported = objects.iter().map(|object| PyBuffer::get(object).ok());
        exported.collect::<Option<_>>().map(Self)
    }

    /// The bytes of each; None where they are not in a row. They must not be written to meanwhile, as for `hashlib` or `zlib`, which release the GIL too.
    pub fn slices(&self) -> Option<Vec<&[u8]>> {
        // SAFETY: the export keeps the memory where it is and as long as it is, for as long as `self` is borrowed, and
        // pyo3 gives a pointer that is not null and aligned, also of no bytes. What is required of the caller is above;
        // who breaks it gets other bytes or a refusal: every position is checked against the length, which stays.
        let seen = |buffer: &PyBuffer<u8>| buffer.as_slice_ptr().map(|bytes| unsafe { bytes.as_ref() });
        self.0.iter().map(seen).collect()
    }
}

/// Lets the allocator keep what a batch gives back, instead of asking the system for the same pages with each batch.
///
/// glibc takes what is larger than anything it was ever given back straight from the system, and returns there what is
/// free beyond twice of that (`mallopt(3)`, `M_MMAP_THRESHOLD`). Without effect on other allocators.
pub fn keep_memory() {
    const MORE_THAN_A_COLUMN_BYTES: usize = 16 << 20;
    drop(std::hint::black_box(Vec::<u8>::with_capacity(MORE_THAN_A_COLUMN_BYTES)));
}

/// A buffer that Python, and so pyarrow, reads where it is.
#[pyclass(frozen, module = "rocketmq_spark.wire._native")]
pub struct Memory(pub Buffer);

impl Memory {
    fn extent(&self) -> (*const c_void, usize) {
        match &self.0 {
            Buffer::Bytes(bytes) => (bytes.as_ptr().cast(), size_of_val(bytes.as_slice())),
            Buffer::Int32(numbers) => (numbers.as_ptr().cast(), size_of_val(numbers.as_slice())),
            Buffer::Int64(numbers) => (numbers.as_ptr().cast(), size_of_val(numbers.as_slice())),
        }
    }
}

#[pymethods]
impl Memory {
    /// Read-only: who asks for more gets Python's BufferError.
    ///
    /// # Safety
    /// Python calls it, with a view that may be written to.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        const READ_ONLY: c_int = 1;
        let (start, size_bytes) = slf.get().extent();
        // SAFETY: `view` is Python's. The class is frozen, so the memory neither moves nor changes, and the view holds a
        // reference to its owner.
        let failed = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start.cast_mut(), size_bytes.try_into()?, READ_ONLY, flags)
        };
        if failed == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}
