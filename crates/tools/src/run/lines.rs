//! Settings on their way to the library and to a daemon.

use mtcp::Config;

/// The settings as lines that read back as the same.
pub(super) fn settings(config: &Config) -> String {
    mtcp::config::keys()
        .iter()
        .map(|key| (key.name, key.show(config)))
        // Threads are the program's own.
        .filter(|(name, value)| !value.is_empty() && *name != "core_mask")
        .map(|(name, value)| format!("{name} = {value}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_read_back() {
        let mut config = Config::default();
        config.set("addr", "10.0.0.2/24 fd00::2/64").unwrap();
        config.set("gateway", "10.0.0.1").unwrap();
        config.set("io", "afxdp:veth0").unwrap();
        let mut copy = Config::default();
        copy.read(&settings(&config), "settings").unwrap();
        assert_eq!(copy, config);
    }
}
