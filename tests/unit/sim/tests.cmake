rlb_unit_test(sim/event_queue LINK rlb::sim)
rlb_unit_test(sim/lru LINK rlb::sim)
rlb_unit_test(sim/scenario LINK rlb::sim)
rlb_unit_test(sim/workload LINK rlb::sim m)
