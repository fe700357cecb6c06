//! Uses a producer and a consumer of the high-level interface of Iggy's client, like the client's
//! examples.

use std::time::Duration;

use futures_util::StreamExt;
use iggy::prelude::*;

use crate::common::{Scene, message};

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_and_a_consumer() {
    let scene = Scene::new().await;
    let client = scene.client().await;
    let producer = client.producer("shop", "orders").expect("a producer");
    let producer = producer
        .direct(
            DirectConfig::builder().batch_length(10).linger_time(IggyDuration::ONE_SECOND).build(),
        )
        .partitioning(Partitioning::balanced())
        .create_stream_if_not_exists()
        .create_topic_if_not_exists(1, IggyExpiry::NeverExpire, MaxTopicSize::Unlimited)
        .build();
    producer.init().await.expect("an initialised producer");
    for batch in 0..5 {
        let messages = (0..10).map(|n| message(&format!("{batch}-{n}"))).collect();
        producer.send(messages).await.expect("a send");
    }

    let reader = scene.client().await;
    let mut consumer = reader
        .consumer_group("readers", "shop", "orders")
        .expect("a consumer")
        .auto_commit(AutoCommit::When(AutoCommitWhen::ConsumingAllMessages))
        .create_consumer_group_if_not_exists()
        .auto_join_consumer_group()
        .polling_strategy(PollingStrategy::next())
        .poll_interval(IggyDuration::from(Duration::from_millis(1)))
        .batch_length(7)
        .build();
    consumer.init().await.expect("an initialised consumer");
    for batch in 0..5 {
        for n in 0..10 {
            let received = tokio::time::timeout(Duration::from_secs(20), consumer.next()).await;
            let received = received.expect("a message in time").expect("a message");
            let received = received.expect("a message without error");
            let text = String::from_utf8_lossy(&received.message.payload).into_owned();
            assert_eq!(text, format!("{batch}-{n}"));
        }
    }
    consumer.shutdown().await.expect("a shutdown");
}
