foreach(noun pool_counter_client pool_counter_client_fault pool_counter_client_suspend pool_counter_client_thread pool_counter_health pool_counter_line
    counter_model pool_counter_response counter_type hash_ring rate)
  rlb_unit_test(counters/${noun} LINK rlb::counters)
endforeach()
rlb_unit_test(counters/counter OWN_PROGRAM LINK rlb::counters -Wl,--wrap=malloc)
set_tests_properties(unit.counters.pool_counter_client_thread PROPERTIES LABELS "unit;thread")
