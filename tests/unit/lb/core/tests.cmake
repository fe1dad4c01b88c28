foreach(noun application application_live limit_status limits_live rejected_queue response_spill route_wait traffic)
  rlb_unit_test(lb/core/${noun} LINK rlb::lb)
endforeach()
set_tests_properties(unit.lb.core.application unit.lb.core.limit_status unit.lb.core.traffic PROPERTIES LABELS "unit;thread")
