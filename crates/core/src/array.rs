//! Arrays of any length in what travels to another process: serde knows them up to 32 elements.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub fn serialize<T: Serialize, S: Serializer, const N: usize>(
    array: &[T; N],
    to: S,
) -> Result<S::Ok, S::Error> {
    array.as_slice().serialize(to)
}

pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>, const N: usize>(
    from: D,
) -> Result<[T; N], D::Error> {
    let elements = Vec::deserialize(from)?;
    let len = elements.len();
    let array = elements.try_into();
    array.map_err(|_| D::Error::custom(format_args!("{len} elements where {N} belong")))
}
