//! What Python calls: `rocketmq_spark.wire.arrow._native`.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::decoder;
use crate::memory::{Bodies, Memory, keep_memory};

/// How many messages, and of each column its buffers.
type Batch = (usize, Vec<Vec<Option<Memory>>>);

/// Decodes pull response bodies of one queue.
#[pyclass(frozen, module = "rocketmq_spark.wire.arrow._native")]
struct Decoder(Arc<decoder::Decoder>);

#[pymethods]
impl Decoder {
    #[new]
    fn new(fields: Vec<String>, broker_name: String, tags: Option<Vec<String>>) -> PyResult<Self> {
        let unknown = || PyValueError::new_err("a field is no column");
        decoder::Decoder::new(fields, broker_name, tags).map(|decoder| Self(decoder.into())).ok_or_else(unknown)
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
        py.detach(|| self.0.decode(&slices, begin_offset, end_offset)).map(shown)
    }

    /// A batch that is decoded bit by bit. So many bytes of bodies are expected, and no more than so many messages.
    fn nothing_yet(&self, data_bytes: usize, most_rows: usize) -> Growing {
        Growing { decoder: self.0.clone(), batch: self.0.nothing_yet(data_bytes, most_rows) }
    }
}

/// A batch that is not yet whole.
#[pyclass(module = "rocketmq_spark.wire.arrow._native")]
struct Growing {
    decoder: Arc<decoder::Decoder>,
    batch: decoder::Growing,
}

#[pymethods]
impl Growing {
    /// Appends what `Decoder.decode` gives; False where something is out of the ordinary, and nothing has changed.
    fn add(&mut self, py: Python<'_>, bodies: Vec<Bound<'_, PyAny>>, begin_offset: i64, end_offset: i64) -> bool {
        let Some(exported) = Bodies::of(&bodies) else { return false };
        let Some(slices) = exported.slices() else { return false };
        py.detach(|| self.decoder.add(&mut self.batch, &slices, begin_offset, end_offset)).is_some()
    }

    /// What has grown. Then there is nothing any more.
    fn finish(&mut self) -> Batch {
        shown(std::mem::replace(&mut self.batch, self.decoder.nothing_yet(0, 0)).finish())
    }
}

/// As Python sees it.
fn shown((row_count, columns): decoder::Batch) -> Batch {
    let seen = |buffers: Vec<_>| buffers.into_iter().map(|buffer: Option<_>| buffer.map(Memory)).collect();
    (row_count, columns.into_iter().map(seen).collect())
}

/// The module as Python sees it.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    keep_memory();
    module.add_class::<Decoder>()?;
    module.add_class::<Growing>()?;
    module.add_class::<Memory>()
}
