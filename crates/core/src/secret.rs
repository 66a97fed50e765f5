//! Keys for hashes that outsiders must not predict, all from the one secret of a stack.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

/// A keyed hash for one purpose: what one of them reveals says nothing about the others.
pub(crate) fn keyed(secret: &[u8; 32], purpose: &str) -> SipHasher13 {
    SipHasher13::new_with_key(&key(secret, purpose))
}

/// The key of that.
pub(crate) fn key(secret: &[u8; 32], purpose: &str) -> [u8; 16] {
    let mut master = [0; 16];
    for (i, byte) in secret.iter().enumerate() {
        master[i % 16] ^= byte.rotate_left(u32::from(i >= 16));
    }
    let half = |index: u8| {
        let mut hasher = SipHasher13::new_with_key(&master);
        hasher.write(purpose.as_bytes());
        hasher.write_u8(index);
        hasher.finish().to_be_bytes()
    };
    let mut key = [0; 16];
    let (low, high) = key.split_at_mut(8);
    low.copy_from_slice(&half(0));
    high.copy_from_slice(&half(1));
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purposes_and_secrets_have_different_keys() {
        let hash = |secret: &[u8; 32], purpose| keyed(secret, purpose).hash(b"x");
        assert_eq!(hash(&[7; 32], "a"), hash(&[7; 32], "a"));
        assert_ne!(hash(&[7; 32], "a"), hash(&[7; 32], "b"));
        for byte in 0..32 {
            let mut other = [7; 32];
            other[byte] = 8;
            assert_ne!(hash(&[7; 32], "a"), hash(&other, "a"), "byte {byte}");
        }
    }
}
