//! Arrow's buffers while they grow.

/// The memory of one Arrow buffer, aligned as its numbers are.
#[derive(Debug, PartialEq)]
pub enum Buffer {
    Bytes(Vec<u8>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
}

/// Values of any length, one after another. Their bytes together must stay below 2 GiB, else they are refused.
pub struct Slices {
    offsets: Vec<i32>,
    data: Vec<u8>,
}

impl Slices {
    pub fn with_capacity(values: usize) -> Self {
        let mut offsets = Vec::with_capacity(values + 1);
        offsets.push(0);
        Self { offsets, data: Vec::new() }
    }

    pub fn push(&mut self, value: &[u8]) -> Option<()> {
        self.data.extend_from_slice(value);
        self.end_value()
    }

    /// The bytes of a value, to be appended to; `end_value` is then due.
    pub fn data(&mut self) -> &mut Vec<u8> {
        &mut self.data
    }

    /// What was appended since the last value is the next one.
    pub fn end_value(&mut self) -> Option<()> {
        self.offsets.push(i32::try_from(self.data.len()).ok()?);
        Some(())
    }

    /// Once more the values `[begin, end)`, which must be the last ones.
    pub fn repeat_last(&mut self, values: usize) -> Option<()> {
        let begin = self.offsets.len().checked_sub(values + 1)?;
        let from = *self.offsets.get(begin)?;
        let step = i32::try_from(self.data.len()).ok()?.checked_sub(from)?;
        self.data.extend_from_within(usize::try_from(from).ok()?..);
        i32::try_from(self.data.len()).ok()?;
        for number in begin + 1..=begin + values {
            let end = *self.offsets.get(number)?;
            self.offsets.push(end + step);
        }
        Some(())
    }

    pub fn value_count(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Offsets and data.
    pub fn finish(mut self) -> [Buffer; 2] {
        self.offsets.shrink_to_fit();
        self.data.shrink_to_fit();
        [Buffer::Int32(self.offsets), Buffer::Bytes(self.data)]
    }
}

/// Which values are there, a bit each.
#[derive(Default)]
pub struct Validity {
    bits: Vec<u8>,
    value_count: usize,
    null_count: usize,
}

impl Validity {
    pub fn push(&mut self, is_there: bool) {
        if self.value_count.is_multiple_of(8) {
            self.bits.push(0);
        }
        if let Some(last) = self.bits.last_mut() {
            *last |= u8::from(is_there) << (self.value_count % 8);
        }
        self.value_count += 1;
        self.null_count += usize::from(!is_there);
    }

    /// None where all are.
    pub fn finish(self) -> Option<Buffer> {
        (self.null_count > 0).then_some(Buffer::Bytes(self.bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_know_where_they_end() {
        let mut slices = Slices::with_capacity(0);
        for value in [&b"a"[..], b"", b"bcd"] {
            slices.push(value).expect("it is short");
        }
        slices.repeat_last(2).expect("they are there");
        assert_eq!(slices.value_count(), 5);
        assert_eq!(slices.finish(), [Buffer::Int32(vec![0, 1, 1, 4, 4, 7]), Buffer::Bytes(b"abcdbcd".to_vec())]);
    }

    #[test]
    fn no_more_is_repeated_than_there_is() {
        let mut slices = Slices::with_capacity(0);
        slices.push(b"a").expect("it is short");
        assert_eq!(slices.repeat_last(2), None);
    }

    #[test]
    fn validity_is_left_out_where_all_is_there() {
        let mut validity = Validity::default();
        for _ in 0..9 {
            validity.push(true);
        }
        assert_eq!(validity.finish(), None);
        let mut validity = Validity::default();
        for number in 0..10 {
            validity.push(number != 1 && number != 8);
        }
        assert_eq!(validity.finish(), Some(Buffer::Bytes(vec![0b1111_1101, 0b10])));
    }
}
