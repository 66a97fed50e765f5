//! Cards that the emulator has, each with a driver of the kernel.

/// A card of a guest, and the tap that is the other end of its cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// What it is called in results.
    pub name: &'static str,
    /// The emulator's device, with its options.
    pub device: &'static str,
    /// Queues each way.
    pub queues: u32,
}

impl Card {
    /// Those that a Debian 12 emulator has, one for each driver.
    pub const ALL: [Self; 4] = [
        Self {
            name: "virtio-net, 4 queues",
            device: "virtio-net-pci,mq=on,vectors=10",
            queues: 4,
        },
        Self {
            name: "virtio-net behind an IOMMU",
            device: "virtio-net-pci,iommu_platform=on,disable-legacy=on",
            queues: 1,
        },
        Self {
            name: "vmxnet3",
            device: "vmxnet3",
            queues: 1,
        },
        Self {
            name: "e1000e",
            device: "e1000e",
            queues: 1,
        },
    ];

    /// What the emulator of Debian's backports has besides.
    pub const IGB: Self = Self {
        name: "igb",
        device: "igb",
        queues: 4,
    };

    /// Modules that drive all of them, and what else guests need.
    pub const MODULES: [&str; 7] = [
        "virtio_pci",
        "virtio_net",
        "virtio_rng",
        "vmxnet3",
        "e1000e",
        "igb",
        "veth",
    ];
}
