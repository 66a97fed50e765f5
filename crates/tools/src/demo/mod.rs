//! `mtcp demo`.
use clap::Args;
/// Shows everything.
#[derive(Args, Debug)]
pub(crate) struct DemoArgs {}
impl DemoArgs {
    pub(crate) fn run(&self) -> anyhow::Result<bool> {
        Ok(true)
    }
}
