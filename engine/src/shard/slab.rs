//! Values by ids that are never used twice, although their places are.

/// A table of values. All operations O(1).
#[derive(Debug)]
pub(super) struct Slab<T> {
    /// Number of times that each place was given up, and what is there now.
    places: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Adds a value, made with the id under which it is found.
    pub(super) fn insert(&mut self, value: impl FnOnce(u64) -> T) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            (self.places.len() - 1) as u32
        });
        let (generation, place) = &mut self.places[index as usize];
        let id = u64::from(*generation) << 32 | u64::from(index);
        *place = Some(value(id));
        id
    }

    /// The value of that id, unless it was taken out.
    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        let (generation, place) = self.places.get_mut((id & 0xffff_ffff) as usize)?;
        if u64::from(*generation) == id >> 32 { place.as_mut() } else { None }
    }

    /// Takes out the value of that id.
    pub(super) fn remove(&mut self, id: u64) -> Option<T> {
        self.get_mut(id)?;
        let index = (id & 0xffff_ffff) as u32;
        let (generation, place) = &mut self.places[index as usize];
        *generation = generation.wrapping_add(1);
        self.free.push(index);
        place.take()
    }

    pub(super) fn into_values(self) -> impl Iterator<Item = T> {
        self.places.into_iter().filter_map(|(_, value)| value)
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}
