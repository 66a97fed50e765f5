//! Arbitrary bytes as a source of decisions. When they run out everything is zero.

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What is left.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// At most `n` bytes.
    pub fn take(&mut self, n: usize) -> &'a [u8] {
        let (taken, rest) = self.bytes.split_at(n.min(self.bytes.len()));
        self.bytes = rest;
        taken
    }

    pub fn u8(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    pub fn u16(&mut self) -> u16 {
        u16::from(self.u8()) << 8 | u16::from(self.u8())
    }

    pub fn u32(&mut self) -> u32 {
        u32::from(self.u16()) << 16 | u32::from(self.u16())
    }

    pub fn u64(&mut self) -> u64 {
        u64::from(self.u32()) << 32 | u64::from(self.u32())
    }

    pub fn bit(&mut self) -> bool {
        self.u8() & 1 != 0
    }

    /// A number that is usually close to 0, of either sign.
    pub fn near(&mut self) -> u32 {
        match self.u8() {
            0..=127 => 0,
            128..=159 => u32::from(self.u8()),
            160..=191 => u32::from(self.u8()).wrapping_neg(),
            192..=223 => u32::from(self.u16()),
            224..=239 => u32::from(self.u16()).wrapping_neg(),
            240.. => self.u32(),
        }
    }

    /// One of a list; `None` if it is empty.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        let index = usize::from(self.u8());
        from.get(index.checked_rem(from.len())?).copied()
    }
}
