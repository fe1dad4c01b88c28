foreach(noun response_store response_store_model response_store_thread stored_response stored_render limit_lease request_match limit rate_rule)
  rlb_unit_test(lb/limits/${noun} LINK rlb::lb)
endforeach()
set_tests_properties(unit.lb.limits.response_store_thread unit.lb.limits.limit_lease unit.lb.limits.limit unit.lb.limits.rate_rule PROPERTIES LABELS "unit;thread")
