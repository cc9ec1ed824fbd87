//! What Python calls: `rocketmq_spark.wire._native`.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PySlice, PyTuple};

use crate::answers;
use crate::decoder;
use crate::memory::{Bodies, Memory, keep_memory};

/// As `rocketmq_spark/wire/implementation.py` has it: another number with each change of what Python calls, or of what rows come out.
const CONTRACT: u32 = 3;

/// How many messages, and of each column its buffers.
type Batch = (usize, Vec<Vec<Option<Memory>>>);

/// Decodes pull response bodies of one queue.
#[pyclass(frozen, module = "rocketmq_spark.wire._native")]
struct Decoder(Arc<decoder::Decoder>);

#[pymethods]
impl Decoder {
    #[new]
    fn new(fields: Vec<String>, broker_name: String, tags: Option<Vec<String>>) -> PyResult<Self> {
        let unknown = || PyValueError::new_err("a field is no column");
        decoder::Decoder::new(fields, broker_name, tags).map(|decoder| Self(decoder.into())).ok_or_else(unknown)
    }

    /// None where something is out of the ordinary.
    #[pyo3(signature = (bodies, begin_offset, end_offset, response_offsets = Vec::new()))]
    fn decode(
        &self,
        py: Python<'_>,
        bodies: Vec<Bound<'_, PyAny>>,
        begin_offset: i64,
        end_offset: i64,
        response_offsets: Vec<(i64, i64)>,
    ) -> Option<Batch> {
        let exported = Bodies::of(&bodies)?;
        let slices = exported.slices()?;
        py.detach(|| self.0.decode(&slices, begin_offset, end_offset, &response_offsets)).map(shown)
    }

    /// A batch that is decoded bit by bit. So many bytes of bodies are expected, and no more than so many messages.
    fn new_batch(&self, data_bytes: usize, most_rows: usize) -> Growing {
        Growing { decoder: self.0.clone(), batch: self.0.new_batch(data_bytes, most_rows) }
    }
}

/// A batch that is not yet whole.
#[pyclass(module = "rocketmq_spark.wire._native")]
struct Growing {
    decoder: Arc<decoder::Decoder>,
    batch: decoder::Growing,
}

#[pymethods]
impl Growing {
    /// Appends what `Decoder.decode` gives; False where something is out of the ordinary, and nothing has changed.
    #[pyo3(signature = (bodies, begin_offset, end_offset, response_offsets = Vec::new()))]
    fn add(
        &mut self,
        py: Python<'_>,
        bodies: Vec<Bound<'_, PyAny>>,
        begin_offset: i64,
        end_offset: i64,
        response_offsets: Vec<(i64, i64)>,
    ) -> bool {
        let Some(exported) = Bodies::of(&bodies) else { return false };
        let Some(slices) = exported.slices() else { return false };
        py.detach(|| self.decoder.add(&mut self.batch, &slices, begin_offset, end_offset, &response_offsets)).is_some()
    }

    /// What has grown. Then there is nothing any more.
    fn finish(&mut self) -> Batch {
        shown(std::mem::replace(&mut self.batch, self.decoder.new_batch(0, 0)).finish())
    }
}

/// As Python sees it.
fn shown((row_count, columns): decoder::Batch) -> Batch {
    let seen = |buffers: Vec<_>| buffers.into_iter().map(|buffer: Option<_>| buffer.map(Memory)).collect();
    (row_count, columns.into_iter().map(seen).collect())
}

/// Reads ordinary answers to pulls.
#[pyclass(frozen, module = "rocketmq_spark.wire._native")]
struct ResponseTemplate {
    template: answers::Template,
    /// `tuple.__new__`, and what it is called with: NamedTuple's own constructor is Python's.
    new_tuple: Py<PyAny>,
    result: Py<PyAny>,
    status: Py<PyAny>,
    reason: Py<PyAny>,
}

/// An opaque and a `PullResult`.
type Ordinary<'py> = (i64, Bound<'py, PyAny>);

#[pymethods]
impl ResponseTemplate {
    /// `result` is Python's class of results, of which all have the same `status` and `reason`.
    #[new]
    fn new(
        py: Python<'_>,
        places: Vec<(Vec<u8>, Option<usize>)>,
        rest: Vec<u8>,
        result: Py<PyAny>,
        status: Py<PyAny>,
        reason: Py<PyAny>,
    ) -> PyResult<Self> {
        let places = places.into_iter().map(|(before, wanted)| answers::Place { before, wanted }).collect();
        let unknown = || PyValueError::new_err("a place is of no number that is wanted");
        let template = answers::Template::new(places, rest).ok_or_else(unknown)?;
        let new_tuple = py.get_type::<PyTuple>().getattr("__new__")?.unbind();
        Ok(Self { template, new_tuple, result, status, reason })
    }

    /// The ordinary answers in front of `received[begin:end]`, and where they end.
    fn read<'py>(
        &self,
        received: &Bound<'py, PyAny>,
        begin: usize,
        end: usize,
    ) -> PyResult<(Vec<Ordinary<'py>>, usize)> {
        let exported = Bodies::of(std::slice::from_ref(received));
        let slices = exported.as_ref().and_then(Bodies::slices);
        let (mut found, mut begin) = (Vec::new(), begin);
        if let Some([bytes]) = slices.as_deref() {
            while let Some(answer) = self.template.read(bytes, begin, end) {
                begin = answer.body.end;
                found.push(self.ordinary(received, answer)?);
            }
        }
        Ok((found, begin))
    }
}

impl ResponseTemplate {
    fn ordinary<'py>(&self, received: &Bound<'py, PyAny>, answer: answers::Answer) -> PyResult<Ordinary<'py>> {
        let py = received.py();
        let [opaque, next_begin_offset, min_offset, max_offset] = answer.numbers;
        let (begin, end) = (answer.body.start.try_into()?, answer.body.end.try_into()?);
        let body = received.get_item(PySlice::new(py, begin, end, 1))?;
        let (status, reason) = (self.status.bind(py), self.reason.bind(py));
        let values = (status, reason, next_begin_offset, min_offset, max_offset, body);
        Ok((opaque, self.new_tuple.bind(py).call1((&self.result, values))?))
    }
}

/// The module as Python sees it.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    keep_memory();
    module.add("CONTRACT", CONTRACT)?;
    module.add_class::<ResponseTemplate>()?;
    module.add_class::<Decoder>()?;
    module.add_class::<Growing>()?;
    module.add_class::<Memory>()
}
