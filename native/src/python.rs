//! What Python calls: `rocketmq_spark.wire.arrow._native`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::decoder;
use crate::memory::{Bodies, Memory, keep_memory};

/// How many messages, and of each column its buffers.
type Batch = (usize, Vec<Vec<Option<Memory>>>);

/// Decodes pull response bodies of one queue.
#[pyclass(frozen, module = "rocketmq_spark.wire.arrow._native")]
struct Decoder(decoder::Decoder);

#[pymethods]
impl Decoder {
    #[new]
    fn new(fields: Vec<String>, broker_name: String, tags: Option<Vec<String>>) -> PyResult<Self> {
        let unknown = || PyValueError::new_err("a field is no column");
        decoder::Decoder::new(fields, broker_name, tags).map(Self).ok_or_else(unknown)
    }

    /// None where something is out of the ordinary.
    fn decode(
        &self,
        py: Python<'_>,
        bodies: Vec<Bound<'_, PyAny>>,
        begin_offset: i64,
        end_offset: i64,
    ) -> Option<Batch> {
        let exported = Bodies::of(&bodies)?;
        let slices = exported.slices()?;
        let (row_count, columns) = py.detach(|| self.0.decode(&slices, begin_offset, end_offset))?;
        let shown = columns.into_iter().map(|buffers| buffers.into_iter().map(|buffer| buffer.map(Memory)).collect());
        Some((row_count, shown.collect()))
    }
}

/// The module as Python sees it.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    keep_memory();
    module.add_class::<Decoder>()?;
    module.add_class::<Memory>()
}
