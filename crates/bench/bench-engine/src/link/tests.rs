use super::*;
use crate::backend::null::{Null, Peer};
use crate::stream_job::stream_job;

/// Returns the number of messages that come at once: as many as there are receives.
fn arrivals(link: &mut Link<Null>) -> usize {
    let found = link.poll().expect("nothing can fail");
    link.take_arrived(|_| Ok(())).expect("nothing can fail");
    found
}

/// A late message of one point must not end the next one, too.
#[test]
fn what_came_before_a_point_is_forgotten_and_its_receives_are_posted_again() {
    let null = Null::new(Peer::Streams, 1, 8, 64);
    let mut link = Link::new(null, &stream_job(8), Side::Server, 0).expect("a link");
    assert_eq!(link.poll().expect("nothing can fail"), 8);
    assert_eq!((link.arrived.len(), link.receives.posted), (8, 0));
    link.forget_arrived().expect("nothing can fail");
    assert_eq!((link.arrived.len(), link.receives.posted), (0, 8));
    assert_eq!(arrivals(&mut link), 8, "those of the point");
}

#[test]
fn as_many_receives_are_posted_as_the_point_wants() {
    let null = Null::new(Peer::Streams, 1, 8, 64);
    let mut link = Link::new(null, &stream_job(8), Side::Server, 0).expect("a link");
    assert_eq!(arrivals(&mut link), 8, "all, before the first point");
    link.keep_posted(2).expect("nothing can fail");
    assert_eq!(arrivals(&mut link), 8, "what is posted is used up");
    for (wanted, posted) in [(2, 2), (5, 5), (100, 8), (1, 8), (1, 1), (3, 3)] {
        link.keep_posted(wanted).expect("nothing can fail");
        assert_eq!(arrivals(&mut link), posted, "{wanted} are wanted");
    }
}
