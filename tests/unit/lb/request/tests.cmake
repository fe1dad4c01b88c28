foreach(noun response exchange front headers)
  rlb_unit_test(lb/request/${noun} LINK rlb::lb)
endforeach()
# Scenarios, with scripted clients and workers.
foreach(noun connect forward limit retry slow_client stop tunnel)
  rlb_unit_test(lb/request/${noun} LINK test_rig)
endforeach()
