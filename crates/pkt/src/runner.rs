//! Plays a script: makes its calls, which wait as long as the [stage](super::stage) has them wait,
//! and lets the stack run in between.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mtcp::{Context, VirtualClock, Waiter};
use wire::time::Instant;

use super::error::ParseError;
use super::host::{boot, turn};
use super::mode::Mode;
use super::perform::Timeline;
use super::script::Script;
use super::settings::Settings;
use super::stage::{Next, Stage};

/// Who waits for the calls of a script.
#[derive(Debug)]
struct Playback {
    clock: VirtualClock,
    /// `None` until the stack is there.
    stage: Mutex<Option<Stage>>,
}

impl Playback {
    fn lock(&self) -> MutexGuard<'_, Option<Stage>> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the stage.
    fn with<T>(
        &self,
        work: impl FnOnce(&mut Stage) -> Result<T, ParseError>,
    ) -> Result<T, ParseError> {
        match &mut *self.lock() {
            Some(stage) => work(stage),
            None => Err(ParseError {
                line: 1,
                what: "there is no stack".to_owned(),
            }),
        }
    }
}

impl Waiter for Playback {
    fn wait(&self, context: &mut Context, until: Option<Instant>) {
        let went_on = self.with(|stage| {
            stage
                .trouble
                .is_none()
                .then(|| stage.go_on_waiting(context, until));
            Ok(stage.trouble.is_none())
        });
        if went_on != Ok(true) {
            context.wake_handle().interrupt();
        }
    }
}

impl Timeline for Playback {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn is_over(&self) -> bool {
        self.with(|stage| Ok(stage.trouble.is_none())) != Ok(true)
    }
}

/// Plays it all. Returns what was to be said.
pub(super) fn run(
    script: Script,
    settings: Settings,
    mode: Mode,
) -> Result<Vec<String>, ParseError> {
    let clock = VirtualClock::default();
    let playback = Arc::new(Playback {
        clock: clock.clone(),
        stage: Mutex::default(),
    });
    let waiter: Arc<dyn Waiter> = Arc::clone(&playback) as _;
    let booted = boot(settings.config.clone(), &clock, waiter);
    let (mut context, far) = booted.map_err(|error| ParseError {
        line: 1,
        what: error.to_string(),
    })?;
    *playback.lock() = Some(Stage::new(script, settings, mode, (clock, far)));
    play(&playback, &mut context)?;
    playback.with(Stage::finish)
}

fn play(playback: &Playback, context: &mut Context) -> Result<(), ParseError> {
    loop {
        let until = context.due().map(|due| playback.now() + due);
        match playback.with(|stage| stage.go_on(context, until))? {
            Next::Stack => turn(context),
            Next::Over => return Ok(()),
            Next::Call => {
                let kind = playback.with(Stage::begin_call)?;
                let outcome = kind.perform(context, playback);
                playback.with(|stage| stage.end_call(&outcome))?;
                turn(context);
            }
        }
    }
}
