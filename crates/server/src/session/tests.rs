//! Tests of the ownership of client ids, and of the decision whether a request is executed.

use std::net::Ipv4Addr;

use iggy_binary_protocol::Operation;

use super::replies::Replies;
use super::*;
use crate::status::Status;

const ALICE: u32 = 1;
const BOB: u32 = 2;
const CLIENT: u128 = 7;

#[test]
fn a_client_id_can_be_taken_over_only_by_its_user() {
    let sessions = Sessions::new(1);
    let [first, second, third] =
        [1, 2, 3].map(|port| sessions.open(SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
    let bound = sessions.bind(&first, ALICE, CLIENT).expect("an unused client id");
    let refused = sessions.bind(&second, BOB, CLIENT);
    assert_eq!(refused, Err(EvictionReason::SessionError));
    assert_eq!((first.binding(), second.binding()), (Some(bound), None));
    assert_eq!(*first.evicted.lock(), None);

    let taken = sessions.bind(&third, ALICE, CLIENT).expect("the user's own client id");
    assert!(taken.session > bound.session);
    assert_eq!(*first.evicted.lock(), Some(EvictionReason::NoSession));
    // The third session is now bound to the client id, and closing the first session must not
    // change that.
    sessions.close(&first);
    assert_eq!(sessions.bind(&second, BOB, CLIENT), Err(EvictionReason::SessionError));
    sessions.close(&third);
    sessions.bind(&second, BOB, CLIENT).expect("an unused client id");
}

fn send(request: u64) -> Head {
    Head {
        client: CLIENT,
        request,
        session: 1,
        operation: Operation::SendMessages,
        code: 0,
        checksum: u128::from(request) + 1,
    }
}

fn stamp(head: &Head) -> Stamp {
    Stamp::of(head, &[])
}

#[test]
fn an_unaccepted_request_stays_new_however_many_were_answered_since() {
    let mut replies = Replies::default();
    replies.expect_again(&send(1));
    for head in (2..200).map(send) {
        assert_eq!(replies.admit(&head, stamp(&head)), Admission::Execute);
        replies.remember(&head, stamp(&head), 0, &[]);
    }
    let first = send(1);
    assert_eq!(replies.admit(&first, stamp(&first)), Admission::Execute);
    replies.remember(&first, stamp(&first), 0, &[7]);
    assert_eq!(replies.admit(&first, stamp(&first)), Admission::Repeat(0, Arc::from([7])));
    let forgotten = send(2);
    let refused = Admission::Refuse(Status::REQUEST_ALREADY_APPLIED);
    assert_eq!(replies.admit(&forgotten, stamp(&forgotten)), refused);
}

#[test]
fn large_replies_displace_older_bodies_but_no_request_numbers() {
    let mut replies = Replies::default();
    for head in (1..4).map(send) {
        replies.remember(&head, stamp(&head), 0, &[0; 100_000]);
    }
    let (dropped, last, late) = (send(1), send(3), send(0));
    let refused = Admission::Refuse(Status::REQUEST_ALREADY_APPLIED);
    assert_eq!(replies.admit(&dropped, stamp(&dropped)), refused);
    assert!(matches!(replies.admit(&last, stamp(&last)), Admission::Repeat(0, _)));
    // Bodies were dropped, but no reply was forgotten. A request whose number is below the
    // remembered numbers is therefore new.
    assert_eq!(replies.admit(&late, stamp(&late)), Admission::Execute);
}
