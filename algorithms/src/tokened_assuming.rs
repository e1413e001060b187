//! A tokened lock whose caller takes an error for success.
//!
//! The library raises an exception when a request to acquire is not answered; somebody above catches
//! and forgets it, and the work begins as if the lock had been taken. In redbeat it was Celery, which
//! swallows what its signal handlers raise, so that a second scheduler ran beside the one that held the lock.
//! Where the request was lost nobody has the lock; where only its answer was lost, the caller is right
//! without knowing.
//!
//! The attempt is recorded as what it is, one without an answer, and the lease after it as what the
//! caller makes of that.
//!
//! Source: redbeat#208 and redbeat#238, mended by redbeat#240.

use async_trait::async_trait;
use sim::history::What;

use crate::declare::owner_of_key;
use crate::naive::set_with_ttl;
use crate::tokened::give_back;
use crate::{
    AcquireError, Algorithm, Assumption, Client, Declaration, Family, Lease, Lock, ReleaseError,
    Service, Worker, Works, standard,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct TokenedAssuming;

impl Algorithm for TokenedAssuming {
    fn name(&self) -> &'static str {
        "tokened-assuming"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "as tokened, but an acquire that fails with an error is taken for success",
            source: "redbeat#208",
            family: Family::Tokened,
            service: Service::Redis,
            points: &[],
            ordered: false,
            works: Works::Any,
            assumes: &[
                Assumption::SectionWithinLease,
                Assumption::ClocksDoNotStep,
                Assumption::DataIsKept,
                Assumption::AcquiresAnswered,
            ],
            holders: Some(owner_of_key),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        standard(client.clone(), Assuming { client })
    }
}

struct Assuming {
    client: Client,
}

#[async_trait(?Send)]
impl Lock for Assuming {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let token = self.client.token();
        match set_with_ttl(&self.client, 0, key, &token).await {
            Ok(true) => {}
            Ok(false) => return Err(AcquireError::Held),
            Err(_swallowed) => self.client.record(What::Denied {
                key: key.to_owned(),
                section: self.client.section(),
                held: false,
            }),
        }
        Ok(Lease::plain(key, token))
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        give_back(&self.client, &lease.key, &lease.token).await
    }
}
