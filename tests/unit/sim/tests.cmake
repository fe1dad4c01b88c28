foreach(noun event_queue lru scenario workload)
  rlb_unit_test(sim/${noun} LINK rlb::sim m)
endforeach()
