//! Whose the memory of connections is, for people.

/// Whose the homes are, as their driver says. One that is not of another process has owner 0.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct HomeOwners(Vec<u32>);

impl HomeOwners {
    /// The home is this owner's from now on.
    pub fn set(&mut self, home: u32, owner: u32) {
        let at = home as usize;
        if at >= self.0.len() {
            self.0.resize(at + 1, 0);
        }
        if let Some(entry) = self.0.get_mut(at) {
            *entry = owner;
        }
    }

    /// Whose it is.
    #[inline]
    pub fn of(&self, home: u32) -> u32 {
        self.0.get(home as usize).copied().unwrap_or(0)
    }
}
