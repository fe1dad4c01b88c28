foreach(noun http1_end http1_pieces http1_server)
  rlb_unit_test(http1/${noun} LINK rlb::http)
endforeach()
