//! A queue between two threads.
/// Makes a queue of at least `capacity` entries (rounded up to a power of two).
pub fn channel<T: Copy + Send>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    todo!()
}
/// The sending end.
#[derive(Debug)]
pub struct Producer<T: Copy + Send>(std::marker::PhantomData<T>);
/// The receiving end.
#[derive(Debug)]
pub struct Consumer<T: Copy + Send>(std::marker::PhantomData<T>);
impl<T: Copy + Send> Producer<T> {
    /// Writes one entry without publishing it.
    /// # Errors
    /// Full: gives the value back.
    pub fn stage(&mut self, value: T) -> Result<(), T> {
        todo!()
    }
    /// Publishes all staged entries; returns how many.
    pub fn publish(&mut self) -> u32 {
        todo!()
    }
    /// `stage` and `publish`.
    /// # Errors
    /// Full: gives the value back.
    pub fn push(&mut self, value: T) -> Result<(), T> {
        todo!()
    }
    /// Entries that can be staged now.
    pub fn free(&mut self) -> u32 {
        todo!()
    }
    /// Entries of the queue.
    pub fn capacity(&self) -> u32 {
        todo!()
    }
}
impl<T: Copy + Send> Consumer<T> {
    /// Takes the oldest published entry.
    pub fn pop(&mut self) -> Option<T> {
        todo!()
    }
    /// Nothing published.
    pub fn is_empty(&mut self) -> bool {
        todo!()
    }
    /// Published entries.
    pub fn len(&mut self) -> u32 {
        todo!()
    }
}
