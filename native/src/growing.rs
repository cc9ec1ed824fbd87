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

impl Default for Slices {
    fn default() -> Self {
        Self { offsets: vec![0], data: Vec::new() }
    }
}

impl Slices {
    /// Makes room for `count` times what is there.
    pub fn expect(&mut self, count: usize) {
        self.offsets.reserve(self.value_count() * count);
        self.data.reserve(self.data.len() * count);
    }

    pub fn push(&mut self, value: &[u8]) -> Option<()> {
        self.data.extend_from_slice(value);
        self.end_value()
    }

    /// As many as `count` of the same; together less than 2 GiB.
    pub fn repeated(value: &[u8], count: usize) -> Self {
        let ends = (0..=count).map(|number| (number * value.len()) as i32);
        Self { offsets: ends.collect(), data: value.repeat(count) }
    }

    /// Appends two upper-case digits a byte; `end_value` is then due.
    pub fn push_hex(&mut self, bytes: &[u8]) {
        const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
        let digit = |four_bits: u8| DIGITS.get(usize::from(four_bits)).copied().unwrap_or_default();
        for &byte in bytes {
            self.data.extend_from_slice(&[digit(byte >> 4), digit(byte & 0xF)]);
        }
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

    /// Takes back all but the first `count`, and what no value has ended yet.
    pub fn truncate(&mut self, count: usize) {
        self.offsets.truncate(count + 1);
        let end = self.offsets.last().map_or(0, |&end| end.try_into().unwrap_or_default());
        self.data.truncate(end);
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

    /// Takes back all but the first `count`.
    pub fn truncate(&mut self, count: usize) {
        if count >= self.value_count {
            return;
        }
        self.bits.truncate(count.div_ceil(8));
        if let Some(last) = self.bits.last_mut().filter(|_| !count.is_multiple_of(8)) {
            *last &= (1 << (count % 8)) - 1;
        }
        let there: usize = self.bits.iter().map(|bits| bits.count_ones() as usize).sum();
        (self.value_count, self.null_count) = (count, count - there);
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
        let mut slices = Slices::default();
        for value in [&b"a"[..], b"", b"bcd"] {
            slices.push(value).expect("it is short");
        }
        slices.repeat_last(2).expect("they are there");
        assert_eq!(slices.value_count(), 5);
        assert_eq!(slices.finish(), [Buffer::Int32(vec![0, 1, 1, 4, 4, 7]), Buffer::Bytes(b"abcdbcd".to_vec())]);
    }

    #[test]
    fn hex_has_two_digits_a_byte() {
        let mut slices = Slices::default();
        slices.push_hex(&[0x0A, 0xF0]);
        slices.push_hex(&[0x99]);
        slices.end_value().expect("it is short");
        assert_eq!(slices.finish(), [Buffer::Int32(vec![0, 6]), Buffer::Bytes(b"0AF099".to_vec())]);
    }

    #[test]
    fn the_same_value_may_be_there_any_number_of_times() {
        for count in [0, 1, 3] {
            let mut slices = Slices::default();
            for _ in 0..count {
                slices.push(b"ab").expect("it is short");
            }
            assert_eq!(Slices::repeated(b"ab", count).finish(), slices.finish());
        }
    }

    #[test]
    fn no_more_is_repeated_than_there_is() {
        let mut slices = Slices::default();
        slices.push(b"a").expect("it is short");
        assert_eq!(slices.repeat_last(2), None);
    }

    #[test]
    fn what_is_taken_back_is_as_if_it_had_not_come() {
        let kept = |count: usize| {
            let (mut slices, mut validity) = (Slices::default(), Validity::default());
            for number in 0..count {
                slices.push(&vec![b'a'; number % 3]).expect("it is short");
                validity.push(number % 3 != 0);
            }
            (slices, validity)
        };
        for all in 0..20 {
            for count in 0..=all + 1 {
                let (mut slices, mut validity) = kept(all);
                slices.push_hex(b"unended");
                slices.truncate(count);
                validity.truncate(count);
                let (mut expected, mut expected_validity) = kept(count.min(all));
                for (slices, validity) in [(&mut slices, &mut validity), (&mut expected, &mut expected_validity)] {
                    slices.push(b"next").expect("it is short");
                    validity.push(true);
                }
                assert_eq!(slices.finish(), expected.finish());
                assert_eq!(validity.finish(), expected_validity.finish());
            }
        }
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
