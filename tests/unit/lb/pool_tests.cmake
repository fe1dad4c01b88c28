foreach(noun homes homes_hand_over homes_model homes_shared pool pool_adaptive pool_backlog pool_called pool_classes pool_hash pool_p2c pool_policy pool_shadow pool_thread pool_version pool_wait)
  rlb_unit_test(lb/${noun} LINK rlb::pool)
endforeach()
set_tests_properties(unit.lb.pool_thread PROPERTIES LABELS "unit;thread")
