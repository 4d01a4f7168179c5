//! Trait of a set of shards that can be led through the phases of a run. It has three
//! implementations: the threads of a real run, the shards on a simulated clock, and the fault
//! simulation. They differ only in what the trait's methods answer.

use ringfall_core::clock::Nanos;

use super::phases::{NextStep, Order, Phase, PhaseMachine, PhasePlan, Sight};

/// A set of shards that a run is made of.
pub trait Shards {
    /// Error that ends the run without a report.
    type Broken;

    /// Takes a snapshot of the shards' state.
    fn sight(&mut self, phase: Phase) -> Result<Sight, Self::Broken>;

    /// Carries an order to every shard. What it asks for may be done when this returns, or later:
    /// [`Sight::is_done`] says so.
    fn obey(&mut self, order: Order) -> Result<(), Self::Broken>;

    /// Lets time pass, until then at the most; returns when something may have changed.
    fn pass_time(&mut self, phase: Phase, until: Nanos) -> Result<(), Self::Broken>;
}

/// Runs the shards through the phases to the end.
///
/// # Errors
/// The first error that the shards return.
pub fn conduct<S: Shards>(plan: PhasePlan, shards: &mut S) -> Result<PhaseMachine, S::Broken> {
    let mut phases = PhaseMachine::new(plan);
    loop {
        let sight = shards.sight(phases.phase())?;
        match phases.next(&sight) {
            NextStep::Tell(order) => shards.obey(order)?,
            NextStep::Wait { until } => shards.pass_time(phases.phase(), until)?,
            NextStep::End => return Ok(phases),
        }
    }
}
