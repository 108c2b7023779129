echo loss=0.5 on a server
