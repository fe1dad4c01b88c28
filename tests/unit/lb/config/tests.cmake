foreach(noun configuration cpu_affinity private_headers settings)
  rlb_unit_test(lb/config/${noun} LINK rlb::lb)
endforeach()
