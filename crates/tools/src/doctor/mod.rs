//! `mtcp doctor`.
pub(crate) mod capabilities;
use clap::Args;
/// Says what helps.
#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {}
impl DoctorArgs {
    pub(crate) fn run(&self) -> anyhow::Result<bool> {
        Ok(true)
    }
}
