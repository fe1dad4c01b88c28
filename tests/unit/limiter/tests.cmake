foreach(noun counter_client counter_client_fault counter_client_rest counter_client_thread counter_health counter_line
    counter_model counter_reply counter_type hash_ring rate)
  rlb_unit_test(limiter/${noun} LINK rlb::limiter)
endforeach()
rlb_unit_test(limiter/counter OWN_PROGRAM LINK rlb::limiter -Wl,--wrap=malloc)
set_tests_properties(unit.limiter.counter_client_thread PROPERTIES LABELS "unit;thread")
