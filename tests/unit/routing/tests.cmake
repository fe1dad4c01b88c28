foreach(noun pool pool_adaptive pool_backlog pool_activation pool_classes pool_hash pool_p2c pool_policy pool_shadow
    pool_shadow_time pool_thread pool_version pool_wait)
  rlb_unit_test(routing/${noun} LINK rlb::routing)
endforeach()
rlb_unit_test(routing/pool_scan LINK rlb::routing -Wl,--wrap=pool_let_in)
set_tests_properties(unit.routing.pool_thread PROPERTIES LABELS "unit;thread")
