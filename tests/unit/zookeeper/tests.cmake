rlb_unit_test(zookeeper/zookeeper_url LINK rlb::tree rlb::tls)
rlb_zookeeper_test(zookeeper/tree_zookeeper LINK rlb::tree ZooKeeper::MT)
rlb_zookeeper_test(zookeeper/zookeeper_session LINK rlb::tree ZooKeeper::MT)
